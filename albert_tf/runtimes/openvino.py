"""An encoder that OpenVINO computes on the CPU; text before it and heads after it stay in TensorFlow.

OpenVINO packs the weights when it loads a network, TensorFlow with every product. A run's encoder is
converted once, to run/openvino/<key>/encoder.xml and encoder.bin. The key is a hash of all that decides about
them, so that other weights or another version of a package are converted anew.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.checkpoints import storage
from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.features import ENCODER_INPUTS
from albert_tf.models.encoder import AlbertEncoder, with_pooled_output
from albert_tf.runtimes.saved_models import converted_function
from albert_tf.training.strategies import compiles
from albert_tf.utils.checks import check_choice
from albert_tf.utils.choices import AUTO, OPENVINO, PRECISIONS, RUNTIMES
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import scratch

Tensors = Mapping[str, tf.Tensor]

FOLDER, FILE = "openvino", "encoder.xml"  # in the run directory; in a folder there
OUTPUTS = ("pooled_output", "sequence_output")


def computes(runtime: str, precision: str, patience: int | None = None, xla: bool | None = None) -> bool:
    """True if OpenVINO is to compute an encoder, of what users ask for.

    "auto" takes it where it is installed, in float32, whose answers differ by rounding alone (1e-5), and
    there is neither a patience nor anything that XLA compiles, as on GPUs. A line says what it takes.

    Raises:
      InputError: one of these is unknown; or OpenVINO is asked for, and is not installed or cannot do it.
    """
    check_choice("runtime", runtime, RUNTIMES)
    check_choice("precision", precision, PRECISIONS)
    if runtime not in (OPENVINO, AUTO):
        return False
    has_patience, is_missing = patience is not None, importlib.util.find_spec("openvino") is None
    problems = {
        f"patience={patience}: what OpenVINO computes has no exits, runtime='tensorflow' has": has_patience,
        f"xla={xla}: OpenVINO compiles by itself, leave xla out": xla,
        "openvino is not installed: pip install openvino": is_missing,
        "TensorFlow compiles for a GPU": runtime == AUTO and compiles(xla),
        "in bfloat16 two runtimes round differently": runtime == AUTO and precision != "float32",
    }
    problem = next((text for text, applies in problems.items() if applies), None)
    if runtime == OPENVINO and problem is not None:
        raise InputError(f"runtime={runtime!r}: {problem}")
    if runtime == AUTO:  # a warning, for who calls from Python sees nothing else
        chosen = "OpenVINO computes" if problem is None else f"TensorFlow computes ({problem})"
        logging.warning("runtime='auto': %s", chosen)
    return problem is None


class OpenVinoEncoder:
    """The `pooled_output` and `sequence_output` of an encoder, in graphs that are not exported.

    Args:
      encoder: whose weights are taken as they are now, in float32.
      precision: "float32", or "bfloat16"; a warning says if the processor computes in another.
      run: where the converted network is kept, and found again; None, or where nothing can be written:
        it is converted in memory.
    """

    def __init__(self, encoder: AlbertEncoder, precision: str = "float32", run: RunDirectory | None = None):
        import openvino

        self._dtype, self._width = encoder.compute_dtype, encoder.config.hidden_size
        hint = {"float32": "f32", "bfloat16": "bf16"}[precision]
        settings = {"INFERENCE_PRECISION_HINT": hint}
        self._compiled = openvino.compile_model(_network(encoder, run), "CPU", settings)
        found = self._compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        if found != hint:
            logging.warning("precision=%r: OpenVINO computes in %s on this processor", precision, found)
        self._lock = threading.Lock()  # a compiled network computes one request at a time

    def __call__(self, inputs: Tensors) -> dict[str, tf.Tensor]:
        """The two outputs, [B, H] and [B, S, H], of the encoder's inputs, int32 [B, S] each."""
        ids = [inputs[name] for name in ENCODER_INPUTS]
        found = tf.numpy_function(self._compute, ids, [tf.float32] * 2)  # noqa: TID251  no input pipeline
        rows, columns = ids[0].shape
        shapes = [rows, self._width], [rows, columns, self._width]
        pairs = zip(OUTPUTS, found, shapes, strict=True)
        return {name: tf.cast(tf.ensure_shape(x, shape), self._dtype) for name, x, shape in pairs}

    def _compute(self, *ids: np.ndarray) -> list[np.ndarray]:
        with self._lock:
            found = self._compiled(dict(zip(ENCODER_INPUTS, ids, strict=True)))
        return [found[name] for name in OUTPUTS]


def _network(encoder: AlbertEncoder, run: RunDirectory | None) -> Any:
    """The encoder as OpenVINO's network: the one that is kept, or a new one, which is kept if it can be."""
    if run is None or not storage.is_local(run.path):
        return converted(encoder)
    place = Path(run.file(FOLDER), _key(encoder))
    if (kept := _read(place)) is not None:
        return kept
    network = converted(encoder)
    try:
        _keep(network, place)
    except OSError as error:
        logging.warning("%s: the network is converted again each time, for it cannot be kept", error)
    else:
        logging.info("converted for OpenVINO: %s", place)
    return network


def converted(encoder: AlbertEncoder) -> Any:
    """The encoder as OpenVINO's network in float32, from `ENCODER_INPUTS`, int32 [B, S], to OUTPUTS."""
    if encoder.compute_dtype != "float32":
        trained, encoder = encoder, AlbertEncoder(encoder.config, dtype="float32")
        for variable, value in zip(encoder.variables, trained.variables, strict=True):
            variable.assign(tf.cast(value, tf.float32))

    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32, name) for name in ENCODER_INPUTS],
        autograph=False,
    )
    def encode(*ids: tf.Tensor) -> dict[str, tf.Tensor]:
        inputs = dict(zip(ENCODER_INPUTS, ids, strict=True))
        outputs = with_pooled_output(encoder(inputs, training=False))
        return {name: outputs[name] for name in OUTPUTS}

    return converted_function(encode.get_concrete_function())


def _key(encoder: AlbertEncoder) -> str:
    """A hash of the network, its weights, and the packages that convert it."""
    versions = [importlib.metadata.version(name) for name in ("openvino", "tensorflow")]
    parts = hashlib.sha256(json.dumps([versions, encoder.config.to_dict()]).encode())
    for variable in encoder.variables:
        parts.update(np.ascontiguousarray(variable.numpy()).data.cast("B"))
    return parts.hexdigest()[:16]


def _read(place: Path) -> Any:
    """The network in a folder; None where there is none, or a damaged one, which is removed."""
    import openvino

    if not place.exists():
        return None
    try:
        return openvino.Core().read_model(place / FILE)
    except RuntimeError:
        logging.warning("%s is damaged, and converted anew", place)
        shutil.rmtree(place, ignore_errors=True)
        return None


def _keep(network: Any, place: Path) -> None:
    """Writes a network as a folder, whole or not at all, in the place of those of other weights."""
    import openvino

    with scratch(place.parent) as stage:
        stage.mkdir()
        openvino.save_model(network, stage / FILE, compress_to_fp16=False)
        if _read(stage) is None:  # a full disk is no error of `save_model`
            raise OSError(f"{place.parent} could not be written")
        place.parent.mkdir(exist_ok=True)
        stage.rename(place)
    for other in place.parent.iterdir():
        if other != place:
            shutil.rmtree(other, ignore_errors=True)
