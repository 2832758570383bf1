"""Exports a run directory for OpenVINO, ONNX Runtime or LiteRT, in float32 or int8."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.constants import ENCODER_INPUTS, EXPORT_RUNTIMES, INPUT_MASK
from albert_tf.errors import InputError, check_choice
from albert_tf.io import check_new_local_folder, json_text, new_local_folder
from albert_tf.models.encoder import text_states
from albert_tf.runs.build_model import arguments_of
from albert_tf.runs.load_save import load_checked
from albert_tf.runs.run_directory import CONFIG_FILE, TASK_FILE, RunDirectory, open_run
from albert_tf.tasks import create_task
from albert_tf.tasks.classification import PAIRS_KEY, takes_pairs
from albert_tf.tasks.serving import ServingModel, Signature
from albert_tf.tasks.tables import read_lines
from albert_tf.tasks.task import to_arrays
from albert_tf.text.files import check_text_files
from albert_tf.text.tokenizer_config import TOKENIZER_FILE, read_vocabulary
from hub_export.card import CARD, NO_LICENSE, fill_template
from hub_export.export import copy_files, resolve_seq_length
from hub_export.module_comparison import CheckFailed
from hub_export.serving_signatures import head_signature, ids_signature

NamedArrays = Mapping[str, np.ndarray]
Rows = Sequence[NamedArrays]
Call = Callable[[NamedArrays], NamedArrays]  # inputs to outputs
Decisions = Mapping[str, Callable[[np.ndarray], np.ndarray]]  # by outputs


# `function` is here a tf.function with one input signature, from int32 tensors to a dict of tensors.


def _convert_openvino(function: Any, file: Path, length: int) -> None:
    import openvino

    # Through a SavedModel: OpenVINO 2026.4 can convert functions, too, but not on Python 3.13.
    concrete, holder = function.get_concrete_function(), tf.Module()
    holder.held = concrete.variables
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(holder, folder, signatures=concrete)
        openvino.save_model(openvino.convert_model(folder), file, compress_to_fp16=False)


def _quantize_openvino(function: Any, plain: Path, file: Path, samples: Rows) -> None:
    import nncf
    import openvino

    # These two methods would adapt the weights to each layer, so that layers that share weights get copies.
    advanced = nncf.AdvancedQuantizationParameters(
        disable_bias_correction=True, smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=-1)
    )
    quantized = nncf.quantize(
        openvino.Core().read_model(plain),
        nncf.Dataset(samples),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(samples),
        # In a head that follows up starts the concatenated parts would share a scale, but differ in its kind.
        ignored_scope=nncf.IgnoredScope(types=["Concat"], validate=False),
        advanced_parameters=advanced,
    )
    openvino.save_model(quantized, file, compress_to_fp16=False)


def _load_openvino(file: Path) -> Call:
    import openvino

    # Without this hint OpenVINO computes in bfloat16 if the processor can.
    compiled = openvino.compile_model(file, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda inputs: {output.any_name: array for output, array in compiled(dict(inputs)).items()}


def _convert_onnx(function: Any, file: Path, length: int) -> None:
    import tf2onnx.convert

    tf2onnx.convert.from_function(function, function.input_signature, opset=18, output_path=str(file))


def _quantize_onnx(function: Any, plain: Path, file: Path, samples: Rows) -> None:
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):
        rows = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            return dict(row) if (row := next(self.rows, None)) is not None else None

    prepared = file.with_suffix(".prepared.onnx")
    # Symbolic shapes need SymPy, and matrix products do not need symbolic shapes.
    quantization.shape_inference.quant_pre_process(plain, prepared, skip_symbolic_shape=True)
    quantization.quantize_static(
        prepared, file, Reader(), op_types_to_quantize=["MatMul", "Gemm"], per_channel=True
    )
    prepared.unlink()


def _load_onnx(file: Path) -> Call:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(names, dict(inputs)), strict=True))


def _convert_litert(function: Any, file: Path, length: int, samples: Rows = ()) -> None:
    """Converts for one row of `length` tokens, to int8 if there are samples of such rows."""
    specs, holder = function.input_signature, tf.Module()
    fixed_specs = [tf.TensorSpec([1, *spec.shape[1:-1], length], tf.int32, spec.name) for spec in specs]
    holder.held = list(function.get_concrete_function().variables)

    @tf.function(input_signature=fixed_specs, autograph=False)
    def call(*inputs: tf.Tensor) -> Any:
        return function(**{spec.name: tensor for spec, tensor in zip(specs, inputs, strict=True)})

    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(holder, folder, signatures=call)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, signature_keys=["serving_default"])
        if samples:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: iter(samples)
        file.write_bytes(converter.convert())


def _quantize_litert(function: Any, plain: Path, file: Path, samples: Rows) -> None:
    _convert_litert(function, file, samples[0][INPUT_MASK].shape[-1], samples)


def _load_litert(file: Path) -> Call:
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_path=str(file), num_threads=os.cpu_count()).get_signature_runner()
    return lambda inputs: runner(**inputs)


class Runtime(NamedTuple):
    """A runtime, with functions that write and load its files."""

    title: str
    packages: tuple[str, ...]  # modules; pip has "-" for "_"
    quantizer: tuple[str, ...]  # further packages for int8
    convert: Callable[[Any, Path, int], None]  # function, file, and length in tokens if `is_fixed`
    quantize: Callable[[Any, Path, Path, Rows], None]  # function, float32 file, int8 file, samples
    load: Callable[[Path], Call]
    is_fixed: bool = False  # True if inputs have one row and a fixed length

    def check_installed(self, is_quantized: bool) -> None:
        """Raises InputError, with the command to install them, if packages are missing."""
        needed = self.packages + (self.quantizer if is_quantized else ())
        missing = [name.replace("_", "-") for name in needed if importlib.util.find_spec(name) is None]
        if missing:
            raise InputError(f"{self.title} needs {', '.join(missing)}: pip install {' '.join(missing)}")


RUNTIMES = {
    "openvino": Runtime(
        "OpenVINO", ("openvino",), ("nncf",), _convert_openvino, _quantize_openvino, _load_openvino
    ),
    "onnx": Runtime(
        "ONNX Runtime", ("tf2onnx", "onnxruntime"), (), _convert_onnx, _quantize_onnx, _load_onnx
    ),
    "litert": Runtime(
        "LiteRT", ("ai_edge_litert",), (), _convert_litert, _quantize_litert, _load_litert, is_fixed=True
    ),
}


# Largest difference of a float32 network to TensorFlow, relative to numbers above 1.
RUNTIME_TOLERANCE = 1e-3
CALIBRATION_TEXTS = 512  # texts of a file that are used at most

# Functions from outputs to decisions, whose agreement with TensorFlow is counted.
DECISIONS: Decisions = {
    **dict.fromkeys(("logits", "start_logits", "end_logits"), lambda x: x.argmax(-1)),
    "start_top_index": lambda x: x[..., 0],
}


def decisions_of(entries: Mapping[str, Any]) -> Decisions:
    """DECISIONS of a run, given the entries of task.json: labels by a threshold, if there is one.

    A regression decides nothing.
    """
    if not entries.get("multi_label") and entries.get("threshold") is None:
        return {} if entries.get("num_labels") == 1 else DECISIONS
    task: Any = create_task(entries)
    return {"logits": lambda x: next(iter(task.decide(task.scores(tf.constant(x))).values())).numpy()}


def export_to(
    run: str | os.PathLike[str],
    output: str | os.PathLike[str],
    runtime: str,
    calibrate: str | os.PathLike[str] | None = None,
    seq_length: int | None = None,
    step: int | None = None,
    license: str | None = None,
) -> Path:
    """Writes a folder with the network of a run for another runtime, whole or not at all.

    The network of a fine-tuned run has the outputs of its head. Other networks have `pooled_output` and
    `sequence_output`. All layers are computed: there are no early exits. The folder also holds the files of
    the tokenizer, the settings and a card.

    Args:
      run: path of the run directory.
      output: path of the folder, new or empty.
      runtime: "openvino", "onnx" or "litert".
      calibrate: path of a file of texts, one per line, or two with a tab between them. A second file is then
        written, which computes matrix products in int8, and the card compares both with TensorFlow.
      seq_length: longest input, in tokens; for LiteRT the length of all inputs. None: the run's, or 128.
      step: training step of the checkpoint. None: the step that `albert_tf.load` chooses.
      license: name of the weights' license, for the card.
    Returns:
      Path of the card.
    Raises:
      InputError: a package is missing, or the run does not fit the arguments.
      OSError: a file cannot be read or written, or the folder holds something.
      CheckFailed: the outputs of the converted network differ from TensorFlow's.
    """
    check_choice("runtime", runtime, RUNTIMES)
    target, run, output = RUNTIMES[runtime], open_run(run), Path(output)
    target.check_installed(calibrate is not None)
    check_new_local_folder(output)
    seq_length = resolve_seq_length(run, seq_length, _least_length(run.task))
    texts = None if calibrate is None else read_calibration_texts(run, Path(calibrate))
    model = load_checked(run, step, dtype="float32")
    network = ConvertedNetwork(target, run, model, network_signature(model), seq_length)
    with _without_telemetry(), new_local_folder(output) as folder:
        file = folder / EXPORT_RUNTIMES[runtime]
        target.convert(network.signature.function, file, seq_length)
        network.check_close(file)
        table = f"| network | MB |\n|---|---|\n| {target.title}, float32 | {_megabytes(file):.2f} |"
        if texts is not None:
            table = network.quantize_and_compare(file, texts)
        _copy_files(run, folder, seq_length)
        (folder / CARD).write_text(network.card(table, license), encoding="utf-8")
    return output / CARD


class ConvertedNetwork(NamedTuple):
    """The network of a run, which is converted for a runtime."""

    target: Runtime
    run: RunDirectory
    model: Any
    signature: Signature  # of the function that is converted
    seq_length: int  # longest input, in tokens

    def check_close(self, file: Path) -> None:
        """Raises CheckFailed if the outputs of the file for the example differ from TensorFlow's."""
        example = {name: np.array(values, np.int32) for name, values in self.signature.example.items()}
        row = self._pad_rows([example])[0]
        outputs, expected = self.target.load(file)(row), _tensorflow_call(self.signature)(row)
        apart = float("inf")
        if outputs.keys() == expected.keys():
            floats = {name: x for name, x in expected.items() if np.issubdtype(x.dtype, np.floating)}
            scales = {name: np.maximum(1, np.abs(x)) for name, x in floats.items()}
            outputs, expected = (
                {name: part[name] / scales[name] for name in scales} for part in (outputs, expected)
            )
            apart = largest_difference(outputs, expected, row)
        if not apart <= RUNTIME_TOLERANCE:
            raise CheckFailed(f"{self.target.title}: outputs are {apart:.1e} away from TensorFlow's")

    def quantize_and_compare(self, file: Path, texts: Sequence[Sequence[str]]) -> str:
        """Writes an int8 file beside the float32 file. Returns a table that compares both with TensorFlow."""
        unpadded = self._calibration_rows(texts)
        rows, int8 = self._pad_rows(unpadded), file.with_stem(f"{file.stem}_int8")
        with contextlib.redirect_stdout(sys.stderr):  # progress bars belong there
            self.target.quantize(self.signature.function, file, int8, rows)
        size = 4 * self.model.count_params() / 1e6
        networks = [ComparedNetwork("TensorFlow, float32", _tensorflow_call(self.signature), unpadded, size)]
        for name, path in (("float32", file), ("int8", int8)):
            call = self.target.load(path)
            networks.append(ComparedNetwork(f"{self.target.title}, {name}", call, rows, _megabytes(path)))
        return comparison_table(networks, decisions_of(self.run.task))

    def _calibration_rows(self, texts: Sequence[Sequence[str]]) -> list[NamedArrays]:
        """Texts, or pairs of texts, as inputs of the network, [1, S] each."""
        served = ServingModel(self.model, self.run.load_tokenizer(), self.seq_length, self.run.task)
        least = _least_length(self.run.task)
        rows = (served.model_inputs(*(tf.constant([text]) for text in line)) for line in texts)
        return [_pad_row(row, max(least, row[INPUT_MASK].shape[-1])) for row in map(to_arrays, rows)]

    def _pad_rows(self, rows: Rows) -> Rows:
        """Pads rows with zeros to the longest input, if the runtime takes no other length."""
        return [_pad_row(row, self.seq_length) for row in rows] if self.target.is_fixed else rows

    def card(self, table: str, license: str | None) -> str:
        """The card in Markdown."""
        fixed_shape = f" One row of {self.seq_length} tokens, [1, …, {self.seq_length}], at a time."
        no_exits = (
            "\nThe run has exits after each layer; here all layers are computed: there are no early exits.\n"
        )
        function, task = self.signature.function, self.run.task
        return fill_template(
            "runtime_card.md",
            title=self.target.title,
            what=task.get("task") or task["model"].replace("_", " "),
            inputs=_list_shapes({spec.name: spec for spec in function.input_signature}),
            outputs=_list_shapes(function.get_concrete_function().structured_outputs),
            fixed=fixed_shape if self.target.is_fixed else "",
            longest=self.seq_length,
            table=table,
            exits=no_exits if self.model.early_exit else "",
            license=license or NO_LICENSE,
        )


@contextlib.contextmanager
def _without_telemetry() -> Iterator[None]:
    """Stops OpenVINO's converter and NNCF from reporting their use, which is slow without a connection.

    They do not report if these variables say that they run on a build server.
    """
    before = {name: os.environ.get(name) for name in ("TF_BUILD", "NNCF_CI")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def network_signature(model: Any) -> Signature:
    """The function from token ids that is converted, and an example request."""
    encode = functools.partial(text_states, model.encoder)  # no layers, no exits
    example = dict(zip(ENCODER_INPUTS, ([[2, 5, 3]], [[1, 1, 1]], [[0, 0, 0]]), strict=True))
    if not hasattr(model, "call_with_encoder") or hasattr(model, "mlm"):
        return Signature(ids_signature(encode), example)
    return head_signature(model, encode, example)


def read_calibration_texts(run: RunDirectory, file: Path) -> list[list[str]]:
    """Reads texts, or pairs of texts, from a file. Raises InputError if they do not fit the run."""
    if run.vocabulary is None or run.task["model"] == "multiple_choice":
        problem = "has no vocabulary" if run.vocabulary is None else "chooses among options"
        raise InputError(f"calibrate={str(file)!r}: {run} {problem}: leave it out")
    lines = [line.split("\t", 1) for line in read_lines(file) if line.strip()]
    if len(lines) > CALIBRATION_TEXTS:
        logging.info("%s: %d of its %d texts are used", file, CALIBRATION_TEXTS, len(lines))
        lines = [lines[place * len(lines) // CALIBRATION_TEXTS] for place in range(CALIBRATION_TEXTS)]
    check_text_files([str(file)])  # which are not named as JSON lines
    pairs = {"span_labeler": True, "token_classifier": False}.get(run.task["model"], takes_pairs(run.task))
    count = len(lines[0]) if pairs is None else 1 + pairs
    if any(len(line) != count for line in lines):
        form = "two texts with a tab between them" if count > 1 else "one text without a tab"
        raise InputError(f"calibrate={str(file)!r}: write {form} into each line")
    return lines


def _least_length(task: Mapping[str, Any]) -> int:
    """The least number of tokens that a network can take: a head of SQuAD 2.0 looks for its best starts."""
    arguments = arguments_of(task)
    return max(3, arguments.get("start_n_top", 0), arguments.get("end_n_top", 0))


def _pad_row(row: NamedArrays, length: int) -> NamedArrays:
    """Pads the inputs of a row with zeros to a length."""
    missing = length - row[INPUT_MASK].shape[-1]
    return {name: np.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, missing)]) for name, x in row.items()}


def _tensorflow_call(signature: Signature) -> Call:
    return lambda row: to_arrays(signature.function(**row))


def largest_difference(outputs: NamedArrays, expected: NamedArrays, row: NamedArrays) -> float:
    """The largest absolute difference between two networks' outputs, without outputs at padding."""
    apart = [0.0]
    for name, output in outputs.items():
        if np.issubdtype(output.dtype, np.floating):
            difference = np.abs(output - expected[name])
            is_token = row[INPUT_MASK] > 0 if _is_per_token(name, output) else ...
            apart.append(float(difference[is_token].max()))
    return max(apart)


def _is_per_token(name: str, output: np.ndarray) -> bool:
    """Whether an output [B, S, …] has values of each token."""
    is_tagger = name == "logits" and output.ndim == 3
    return is_tagger or name in ("sequence_output", "start_logits", "end_logits")


class ComparedNetwork(NamedTuple):
    """A network in a comparison."""

    name: str
    call: Call
    rows: Rows  # inputs of the texts; TensorFlow's have no padding
    megabytes: float


def comparison_table(networks: Sequence[ComparedNetwork], decisions: Decisions) -> str:
    """A table of networks: size, latency, and agreement with the first network, which is TensorFlow's.

    For each text, all networks are timed one after the other. `decisions`: see `decisions_of`.
    """
    for network in networks:
        network.call(network.rows[0])  # warm-up
    seconds: dict[str, list[float]] = {network.name: [] for network in networks}
    answers: dict[str, list[NamedArrays]] = {network.name: [] for network in networks}
    for number in range(len(networks[0].rows)):
        for name, call, rows, _ in networks:
            start = time.perf_counter()
            answers[name].append(call(rows[number]))
            seconds[name].append(time.perf_counter() - start)
    lines = ["| network | MB | ms per text (median) | decisions as TensorFlow's | largest difference |"]
    lines.append("|---|---|---|---|---|")
    for name, _, rows, megabytes in networks:
        expected = list(map(networks[0].call, rows))
        apart = max(map(largest_difference, answers[name], expected, rows))
        same = _format_agreement(answers[name], expected, rows, decisions)
        milliseconds = 1000 * statistics.median(seconds[name])
        lines.append(f"| {name} | {megabytes:.2f} | {milliseconds:.2f} | {same} | {apart:.1e} |")
    return "\n".join(lines)


def _format_agreement(outputs: Rows, expected: Rows, texts: Rows, decisions: Decisions = DECISIONS) -> str:
    """The share of equal decisions in per cent; a dash if the outputs hold no decisions."""
    same = []
    for one, other, text in zip(outputs, expected, texts, strict=True):
        for name in decisions.keys() & other.keys():
            equal = decisions[name](one[name]) == decisions[name](other[name])
            is_tag = name == "logits" and _is_per_token(name, other[name])
            same.append((equal[text[INPUT_MASK] > 0] if is_tag else equal).reshape(-1))
    return f"{100 * np.concatenate(same).mean():.1f} %" if same else "–"


def _megabytes(file: Path) -> float:
    return sum(part.stat().st_size for part in file.parent.glob(f"{file.stem}.*")) / 1e6


def _copy_files(run: RunDirectory, folder: Path, seq_length: int) -> None:
    """Copies the settings of a run and its vocabulary, if any, to a folder, with the longest input."""
    copy_files(run, {name: name for name in (CONFIG_FILE, TOKENIZER_FILE)}, folder)
    pairs = takes_pairs(run.task)  # for readers that do not know the names of tasks
    task = {**run.task, "seq_length": seq_length, **({} if pairs is None else {PAIRS_KEY: pairs})}
    (folder / TASK_FILE).write_text(json_text(task), encoding="utf-8")
    for name, content in {} if run.vocabulary is None else read_vocabulary(run.vocabulary).items():
        (folder / name).write_bytes(content)


def _list_shapes(tensors: Mapping[str, Any]) -> str:
    return "\n".join(f"- `{name}` {tensor.shape.as_list()}" for name, tensor in tensors.items())
