"""Checks of exported modules: they load, answer, and suit TF Serving."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import Message
from tensorflow.core.protobuf import saved_model_pb2

import albert_tf.tokenizers  # noqa: F401, registers the ops of TF Text
from albert_tf.tasks.serving import DEFAULT
from hub_export.answers import (
    CheckFailed,
    call_answers,
    compare,
    is_encoder,
    requests_of,
    session_answers,
    signature_answers,
)
from hub_export.warmup import REQUESTS

# The ops of TF Text that an exported graph may hold: they are in its `ops_lib`, which TF Serving links.
TEXT_OPS = {
    "CaseFoldUTF8",
    "NormalizeUTF8",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceTokenizeWithOffsetsOp",
}

# A TPU's host does not run Assert, and a server cannot run the others, which call Python.
FORBIDDEN_OPS = {"Assert", "PyFunc", "EagerPyFunc", "PyFuncStateless"}

# Of two components at least: a piece of a vocabulary may begin with a slash.
ABSOLUTE_PATH = re.compile(r"""(^|[\s"'=])((/[^/\s][^/]*){2}|[A-Za-z]:[\\/]\w)|file:///""")
LONGEST_PATH = 4096  # bytes
TABLE = 100  # strings in one constant: they are a vocabulary's pieces, any of which may look like a path

# How far apart numbers may be that two loaders answer, or a module and the model it was made of.
TOLERANCE, BFLOAT16_TOLERANCE = 1e-5, 0.05


def check(folder: Path, expected: Mapping[str, np.ndarray] | None = None) -> set[str]:
    """Loads a module as TensorFlow 2 does and as TF Serving does, and looks into its graph.

    Args:
      folder: of the SavedModel.
      expected: what the model in memory answers, by `call_answers` or `signature_answers`.
    Returns:
      The names of the ops in it.
    Raises:
      CheckFailed: it does not load, or answers nothing or otherwise; a file of its assets is missing; it is
        served without a warm-up request for each signature; a signature takes or gives what is not dense or
        fixes the size of a batch; it is an encoder without a signature; it has an op that TF Serving lacks,
        an Assert, Python or an absolute path.
    """
    try:
        module = tf.saved_model.load(str(folder))
        called = call_answers(module)
        requests = requests_of(folder, module)
        answered = signature_answers(module.signatures, requests)
        in_session = session_answers(folder, requests)
    except Exception as error:  # whatever it is that loaders raise
        raise CheckFailed(f"{folder} does not load and answer: {error}") from error
    is_narrow = any(variable.dtype == tf.bfloat16 for variable in getattr(module, "variables", ()))
    tolerance = BFLOAT16_TOLERANCE if is_narrow else TOLERANCE
    compare(f"{folder}, as TensorFlow 1 and 2 load it", in_session, answered, tolerance)
    if expected is not None:
        compare(f"{folder}, against the model in memory", {**called, **answered}, expected, tolerance)
    asked = {name for name, _ in requests}
    if lacking := sorted(set(module.signatures) - asked):
        raise CheckFailed(f"{folder / REQUESTS} has no request for {', '.join(lacking)}: export it anew")
    if is_encoder(module) and DEFAULT not in module.signatures:
        raise CheckFailed(f"{folder} has no signature {DEFAULT} for other runtimes: export it anew")
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    for problem in unserved_tensors(saved):
        raise CheckFailed(f"{folder}: {problem}")
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


def unserved_tensors(saved: saved_model_pb2.SavedModel) -> Iterator[str]:
    """Faults of the inputs and outputs of signatures, a line each.

    All are dense and have a row for each of the request's, however many these are: a server that collects
    requests into batches splits every output by its rows.
    """
    for name, signature in (item for meta in saved.meta_graphs for item in meta.signature_def.items()):
        if not signature.method_name:  # what loaders run, not servers
            continue
        for key, info in (*signature.inputs.items(), *signature.outputs.items()):
            sizes = [dimension.size for dimension in info.tensor_shape.dim]
            if info.WhichOneof("encoding") != "name":
                yield f"{key} of {name} is not dense"
            elif sizes[:1] != [-1] or info.tensor_shape.unknown_rank:
                yield f"{key} of {name} has the shape {sizes}: its rows must be those of the request"


def saved_ops(saved: saved_model_pb2.SavedModel) -> set[str]:
    """The names of all ops in a SavedModel's graphs and their functions."""
    return {
        node.op
        for meta in saved.meta_graphs
        for nodes in (meta.graph_def.node, *(f.node_def for f in meta.graph_def.library.function))
        for node in nodes
    }


def has_absolute_path(text: bytes) -> bool:
    """True for readable text with the absolute path of a file in it."""
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
