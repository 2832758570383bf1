"""Whether exported modules load, answer, and suit TF Serving."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import saved_model_pb2

import albert_tf.text  # noqa: F401, registers the ops of TF Text
from albert_tf.errors import WorkFailed
from albert_tf.features import ENCODER_INPUTS, MLM_POSITIONS
from hub_export.warmup import REQUESTS, read_requests

Answers = dict[str, np.ndarray]

# The ops of TF Text that an exported graph may hold: they are in its `ops_lib`, which TF Serving links.
TEXT_OPS = {
    "CaseFoldUTF8",
    "NormalizeUTF8",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceTokenizeWithOffsetsOp",
}

# A TPU's host does not run the first, a server none of the others.
FORBIDDEN_OPS = {"Assert", "PyFunc", "EagerPyFunc", "PyFuncStateless"}

# Of two components at least: a piece of a vocabulary may begin with a slash.
ABSOLUTE_PATH = re.compile(r"""(^|[\s"'=])((/[^/\s][^/]*){2}|[A-Za-z]:[\\/]\w)|file:///""")
LONGEST_PATH = 4096  # bytes
TABLE = 100  # strings in one constant: they are a vocabulary's pieces, any of which may look like a path

TEXT = ["Warm words before the first visitor.", ""]

# How far apart numbers may be that two loaders answer, or a module and the model it was made of.
TOLERANCE, BFLOAT16_TOLERANCE = 1e-5, 0.05


class CheckFailed(WorkFailed):
    """An exported module is not what it should be; the message says which one and why."""


def check(folder: Path, expected: Mapping[str, np.ndarray] | None = None) -> set[str]:
    """Loads a module as TensorFlow 2 does and as TF Serving does, and looks into its graph.

    Args:
      folder: of the SavedModel.
      expected: what the model in memory answers, by `call_answers` or `signature_answers`.
    Returns:
      The names of the ops in it.
    Raises:
      CheckFailed: it does not load, or answers nothing or otherwise; a file of its assets is missing; it is
        served without a warm-up request for each signature; it has an op that TF Serving lacks, an Assert,
        Python or an absolute path.
    """
    try:
        module = tf.saved_model.load(str(folder))
        called = call_answers(module)
        requests = list(read_requests(folder))
        answered = signature_answers(module.signatures, requests)
        in_session = session_answers(folder)
    except Exception as error:  # whatever it is that loaders raise
        raise CheckFailed(f"{folder} does not load and answer: {error}") from error
    is_narrow = any(variable.dtype == tf.bfloat16 for variable in getattr(module, "variables", ()))
    tolerance = BFLOAT16_TOLERANCE if is_narrow else TOLERANCE
    _compare(f"{folder}, as TensorFlow 1 and 2 load it", in_session, answered, tolerance)
    if expected is not None:
        _compare(f"{folder}, against the model in memory", {**called, **answered}, expected, tolerance)
    asked = {name for name, _ in requests}
    if not callable(module) and (lacking := sorted(set(module.signatures) - asked)):
        raise CheckFailed(f"{folder / REQUESTS} has no request for {', '.join(lacking)}: export it anew")
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    for name in (asset.filename for meta in saved.meta_graphs for asset in meta.asset_file_def):
        if not (folder / "assets" / name).is_file():
            raise CheckFailed(f"{folder / 'assets' / name} is missing: export it anew")
    ops = saved_ops(saved)
    unserved = ops & FORBIDDEN_OPS | {op for op in ops - TEXT_OPS if not hasattr(tf.raw_ops, op)}
    if unserved:
        raise CheckFailed(f"{folder} has ops that TF Serving cannot run: {', '.join(sorted(unserved))}")
    for text in filter(has_absolute_path, strings(saved)):
        raise CheckFailed(f"{folder} has an absolute path in it: {text.decode()}")
    return ops


def call_answers(module: Any) -> Answers:
    """What a preprocessor or an encoder, and the encoder's heads, answer when called; else nothing."""
    if hasattr(module, "bert_pack_inputs"):
        return _arrays("call", module(tf.constant(TEXT)))
    if not callable(module):
        return {}
    ids = {name: tf.ones([2, 3], tf.int32) for name in ENCODER_INPUTS}
    found = _arrays("call", module(ids))
    for head in ("mlm", "sop", "nsp"):
        if hasattr(module, head):
            positions = {MLM_POSITIONS: tf.ones([2, 1], tf.int32)} if head == "mlm" else {}
            found |= _arrays(head, getattr(module, head)({**ids, **positions}))
    return found


def signature_answers(
    signatures: Mapping[str, Any], requests: Iterable[tuple[str, Mapping[str, tf.Tensor]]]
) -> Answers:
    """What signatures answer to requests, each the name of a signature and its inputs."""
    found: Answers = {}
    for name, inputs in requests:
        found |= _arrays(name, signatures[name](**inputs))
    return found


def session_answers(folder: Path) -> Answers:
    """What signatures answer to the warm-up requests in a session of TensorFlow 1, as in TF Serving."""
    requests = list(read_requests(folder))
    found: Answers = {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def
        for name, inputs in requests:
            fed = {signatures[name].inputs[key].name: value.numpy() for key, value in inputs.items()}
            fetched = {key: info.name for key, info in signatures[name].outputs.items()}
            found |= _arrays(name, session.run(fetched, fed))
    return found


def _arrays(name: str, outputs: Mapping[str, Any]) -> Answers:
    """Outputs as arrays, named `<name>/<output>/<place in it>`; strings as bytes of a fixed width."""
    found = {}
    for key, output in outputs.items():
        for place, tensor in enumerate(tf.nest.flatten(output)):
            array = np.asarray(tensor)
            found[f"{name}/{key}/{place}"] = array.astype("S") if array.dtype == object else array
    return found


def _compare(what: str, actual: Answers, expected: Mapping[str, np.ndarray], tolerance: float) -> None:
    """Raises CheckFailed where two sets of answers have different names, shapes or numbers.

    Strings may differ: fillings of nearly the same score may change places.
    """
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual or name not in expected:
            raise CheckFailed(f"{what}: only one of the two answers {name}")
        a, b = actual[name], expected[name]
        if a.shape != b.shape:
            raise CheckFailed(f"{what}: {name} has the shapes {a.shape} and {b.shape}")
        if a.dtype.kind != "S" and not np.allclose(a, b, rtol=0, atol=tolerance):
            raise CheckFailed(f"{what}: {name} differs by {np.abs(a - b).max():.3g}")


def saved_ops(saved: saved_model_pb2.SavedModel) -> set[str]:
    """The names of all ops in a SavedModel's graphs and their functions."""
    return {
        node.op
        for meta in saved.meta_graphs
        for nodes in (meta.graph_def.node, *(f.node_def for f in meta.graph_def.library.function))
        for node in nodes
    }


def has_absolute_path(text: bytes) -> bool:
    """Whether this is readable text with the absolute path of a file in it."""
    if len(text) > LONGEST_PATH:
        return False  # a vocabulary, or numbers
    try:
        readable = text.decode()
    except UnicodeDecodeError:
        return False
    return readable.isprintable() and ABSOLUTE_PATH.search(readable) is not None


def strings(message: Message) -> Iterator[bytes]:
    """All strings and bytes in a protocol buffer, without those of tables."""
    for field, value in message.ListFields():
        if not field.is_repeated:
            value = [value]
        elif field.name == "string_val" and len(value) >= TABLE:
            continue
        elif hasattr(value, "values"):  # a map
            value = value.values()
        for item in value:
            if isinstance(item, Message):
                yield from strings(item)
            elif isinstance(item, str | bytes):
                yield item.encode() if isinstance(item, str) else item


def write_expected(path: Path, expected: Mapping[str, Answers]) -> None:
    """Writes the answers of models in memory, by the folder of the module, relative to what is checked."""
    arrays = {
        f"{folder}|{name}": array for folder, found in expected.items() for name, array in found.items()
    }
    np.savez(path, allow_pickle=False, **arrays)


def read_expected(path: Path) -> dict[str, Answers]:
    """What `write_expected` wrote."""
    expected: dict[str, Answers] = {}
    with np.load(path) as arrays:
        for key, array in arrays.items():
            folder, _, name = key.partition("|")
            expected.setdefault(folder, {})[name] = array
    return expected
