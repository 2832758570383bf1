"""A function of TensorFlow as a file of OpenVINO, ONNX Runtime or LiteRT, in float32 or with int8 products.

Packages are imported where they are used: nobody needs those of all three.
"""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.utils.errors import InputError

Arrays = Mapping[str, np.ndarray]
Call = Callable[[Arrays], Arrays]
Function = Any  # a tf.function with one input signature, from int32 tensors to tensors by name


def _openvino(function: Function, file: Path, length: int) -> None:
    import openvino

    # By way of a SavedModel: OpenVINO 2026.4 converts functions themselves, too, but not on Python 3.13.
    concrete, holder = function.get_concrete_function(), tf.Module()
    holder.held = concrete.variables
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(holder, folder, signatures=concrete)
        openvino.save_model(openvino.convert_model(folder), file, compress_to_fp16=False)


def _openvino_int8(function: Function, plain: Path, file: Path, samples: Sequence[Arrays]) -> None:
    import nncf
    import openvino

    # Without what would fit the weights to each layer: layers that share them would have copies.
    advanced = nncf.AdvancedQuantizationParameters(
        disable_bias_correction=True, smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=-1)
    )
    quantized = nncf.quantize(
        openvino.Core().read_model(plain),
        nncf.Dataset(samples),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(samples),
        # Of a head that follows up starts its parts would share a scale, and differ in its kind.
        ignored_scope=nncf.IgnoredScope(types=["Concat"], validate=False),
        advanced_parameters=advanced,
    )
    openvino.save_model(quantized, file, compress_to_fp16=False)


def _openvino_load(file: Path) -> Call:
    import openvino

    # Without the hint it computes in bfloat16 where the processor can.
    compiled = openvino.compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: {output.any_name: array for output, array in compiled(dict(inputs)).items()}


def _onnx(function: Function, file: Path, length: int) -> None:
    import tf2onnx.convert

    signature = function.input_signature
    tf2onnx.convert.from_function(function, signature, opset=18, output_path=str(file))


def _onnx_int8(function: Function, plain: Path, file: Path, samples: Sequence[Arrays]) -> None:
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        rows = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return dict(row) if (row := next(self.rows, None)) is not None else None

    prepared = file.with_suffix(".prepared.onnx")
    # Symbolic shapes would need SymPy, and only other operations than products ask for them.
    quantization.shape_inference.quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared, file, Reader(), op_types_to_quantize=["MatMul", "Gemm"], per_channel=True
    )
    prepared.unlink()


def _onnx_load(file: Path) -> Call:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _litert(function: Function, file: Path, length: int, samples: Sequence[Arrays] = ()) -> None:
    """For one row of so many tokens; int8 where there are samples of such rows."""
    specs, names = function.input_signature, [spec.name for spec in function.input_signature]
    fixed = [tf.TensorSpec([1, *spec.shape[1:-1], length], tf.int32, spec.name) for spec in specs]
    holder = tf.Module()
    holder.held = list(function.get_concrete_function().variables)

    @tf.function(input_signature=fixed, autograph=False)
    def call(*inputs: tf.Tensor) -> Any:
        return function(**dict(zip(names, inputs, strict=True)))

    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(holder, folder, signatures=call)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["serving_default"])
        if samples:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: iter(samples)
        file.write_bytes(converter.convert())


def _litert_int8(function: Function, plain: Path, file: Path, samples: Sequence[Arrays]) -> None:
    _litert(function, file, next(iter(samples[0].values())).shape[-1], samples)


def _litert_load(file: Path) -> Call:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_path=str(file), num_threads=os.cpu_count()).get_signature_runner()
    return lambda inputs: runner(**inputs)


class Runtime(NamedTuple):
    """Functions that write and load a file of a runtime."""

    title: str
    packages: tuple[str, ...]  # modules; pip has "-" for "_"
    quantizer: tuple[str, ...]  # further ones for int8
    convert: Callable[[Function, Path, int], None]  # of a length in tokens, where `is_fixed`
    quantize: Callable[[Function, Path, Path, Sequence[Arrays]], None]  # from the file in float32
    load: Callable[[Path], Call]
    is_fixed: bool = False  # True if all inputs are one row of one length

    def check_installed(self, is_quantized: bool) -> None:
        """InputError, with the command that installs them, if packages are missing."""
        needed = self.packages + (self.quantizer if is_quantized else ())
        missing = [name.replace("_", "-") for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            raise InputError(f"{self.title} needs {', '.join(missing)}: pip install {' '.join(missing)}")


RUNTIMES = {
    "openvino": Runtime("OpenVINO", ("openvino",), ("nncf",), _openvino, _openvino_int8, _openvino_load),
    "onnx": Runtime("ONNX Runtime", ("tf2onnx", "onnxruntime"), (), _onnx, _onnx_int8, _onnx_load),
    "litert": Runtime("LiteRT", ("ai_edge_litert",), (), _litert, _litert_int8, _litert_load, is_fixed=True),
}
