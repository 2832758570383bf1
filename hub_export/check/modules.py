"""Checks of exported modules: they load, answer, and suit TF Serving."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import albert_tf.tokenizers  # noqa: F401, registers the ops of TF Text
from albert_tf.checkpoints.storage import check_no_glob
from albert_tf.tasks.serving import DEFAULT
from albert_tf.utils.errors import WorkFailed
from hub_export.check import answers

# The ops of TF Text that an exported graph may hold: they are in its `ops_lib`, which TF Serving links.
TEXT_OPS = {
    "CaseFoldUTF8",
    "FastWordpieceTokenizeWithOffsets",
    "NormalizeUTF8",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceTokenizeWithOffsetsOp",
}

# A TPU's host does not run Assert, and a server cannot run the others, which call Python.
FORBIDDEN_OPS = {"Assert", "PyFunc", "EagerPyFunc", "PyFuncStateless"}

# How far apart numbers may be that two loaders answer, or a module and the model it was made of.
TOLERANCE, BFLOAT16_TOLERANCE = 1e-5, 0.05


class CheckFailed(WorkFailed):
    """An exported module is not what it should be; the message says which one and why."""


def check(folder: Path, expected: answers.Answers | None = None) -> set[str]:
    """Loads a module as TensorFlow 2 does and as TF Serving does, and looks into its graph.

    `expected` is what the model in memory answers, by `answers.of_call` and `answers.of_signatures`. Returns
    the names of the ops in it.

    Raises:
      CheckFailed: it does not load, or answers nothing or otherwise, or has one of the `faults`.
    """
    check_no_glob(folder, "folder")
    try:
        module = tf.saved_model.load(str(folder))
        requests = answers.requests_of(folder, module)
        answered = answers.of_signatures(module.signatures, requests)
        in_session = answers.in_session(folder, requests)
        called = answers.of_call(module)
    except Exception as error:  # whatever it is that loaders raise
        raise CheckFailed(f"{folder} does not load and answer: {error}") from error
    is_narrow = any(variable.dtype == tf.bfloat16 for variable in getattr(module, "variables", ()))
    tolerance = BFLOAT16_TOLERANCE if is_narrow else TOLERANCE
    _compare(f"{folder}, as TensorFlow 1 and 2 load it", in_session, answered, tolerance)
    if expected is not None:
        _compare(f"{folder}, against the model in memory", {**called, **answered}, expected, tolerance)
    for fault in faults(folder, module):
        raise CheckFailed(f"{folder} {fault}: export it anew")
    return saved_ops(folder)


def _compare(what: str, actual: answers.Answers, expected: answers.Answers, tolerance: float) -> None:
    """Raises CheckFailed where two sets of answers have different names, shapes or numbers.

    Strings may differ: fillings of nearly the same score may change places.
    """
    if differing := sorted(expected.keys() ^ actual.keys()):
        raise CheckFailed(f"{what}: only one of the two answers {differing[0]}")
    for name, a in sorted(actual.items()):
        b = expected[name]
        if a.shape != b.shape:
            raise CheckFailed(f"{what}: {name} has the shapes {a.shape} and {b.shape}")
        if a.dtype != object and not np.allclose(a, b, rtol=0, atol=tolerance):
            raise CheckFailed(f"{what}: {name} differs by {np.abs(a - b).max():.3g}")


def faults(folder: Path, module: Any) -> Iterator[str]:
    """The fault of a module that is loaded from a folder, in words from the verb on.

    An asset or a warm-up request is missing; a tensor of a signature is not dense, or fixes the size of a
    batch; an encoder has no signature; there is an op that TF Serving lacks, an Assert or Python.
    """
    saved = _saved_model(folder)
    if lacking := sorted(set(module.signatures) - set(answers.requests_of(folder, module))):
        yield f"has no request for {', '.join(lacking)} in {answers.REQUESTS}"
    if answers.is_encoder(module) and DEFAULT not in module.signatures:
        yield f"has no signature {DEFAULT} for other runtimes"
    # All tensors are dense and have a row for each of the request's, however many these are: a server that
    # collects requests into batches splits every output by its rows.
    for name, signature in (item for meta in saved.meta_graphs for item in meta.signature_def.items()):
        for key, info in (*signature.inputs.items(), *signature.outputs.items()):
            sizes = [dimension.size for dimension in info.tensor_shape.dim]
            if not signature.method_name:  # what loaders run, not servers
                continue
            if info.WhichOneof("encoding") != "name":
                yield f"has {key} of {name}, which is not dense"
            elif sizes[:1] != [-1] or info.tensor_shape.unknown_rank:
                yield f"has {key} of {name} of the shape {sizes}: its rows must be those of the request"
    for asset in (asset.filename for meta in saved.meta_graphs for asset in meta.asset_file_def):
        if not (folder / "assets" / asset).is_file():
            yield f"has no assets/{asset}"
    ops = saved_ops(folder)
    if unserved := ops & FORBIDDEN_OPS | {op for op in ops - TEXT_OPS if not hasattr(tf.raw_ops, op)}:
        yield f"has ops that TF Serving cannot run: {', '.join(sorted(unserved))}"


def _saved_model(folder: Path) -> saved_model_pb2.SavedModel:
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())


def saved_ops(folder: Path) -> set[str]:
    """The names of all ops in a SavedModel's graphs and their functions."""
    return {
        node.op
        for meta in _saved_model(folder).meta_graphs
        for nodes in (meta.graph_def.node, *(f.node_def for f in meta.graph_def.library.function))
        for node in nodes
    }
