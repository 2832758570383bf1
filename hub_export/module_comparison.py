"""Checks that an exported module loads, answers, and suits TF Serving."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

import albert_tf.text.tokenizer  # noqa: F401, registers the ops of TF Text
from albert_tf.constants import ENCODER_INPUTS, MLM_POSITIONS
from albert_tf.errors import WorkFailed
from albert_tf.filesystem import check_no_glob
from albert_tf.tasks.serving import DEFAULT

ModuleAnswers = dict[str, np.ndarray]  # `<call or signature>/<output>/<index>` to array
Requests = Mapping[str, Mapping[str, tf.Tensor]]  # name of a signature to its inputs by name

EXAMPLE_TEXT = ["Warm words before the first visitor.", ""]

# Requests that TF Serving runs before a version takes its first request. The path is in the version's folder.
WARM_UP_FILE = Path("assets.extra/tf_serving_warmup_requests")


def write_requests(folder: Path, requests: Iterable[tuple[str, Mapping[str, tf.Tensor]]]) -> None:
    """Writes the warm-up file of a SavedModel from pairs of a signature's name and its inputs by name."""
    path = folder / WARM_UP_FILE
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, inputs in requests:
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = signature
            for name, tensor in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            file.write(log.SerializeToString())


def read_requests(folder: Path) -> dict[str, Mapping[str, tf.Tensor]]:
    """The inputs of the first warm-up request of each signature; empty if there is no warm-up file."""
    path = folder / WARM_UP_FILE
    requests: dict[str, Mapping[str, tf.Tensor]] = {}
    for record in tf.data.TFRecordDataset(str(path)) if path.exists() else ():
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        inputs = {name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()}
        requests.setdefault(request.model_spec.signature_name, inputs)
    return requests


def is_encoder(module: Any) -> bool:
    """True if a module is called with token ids."""
    return callable(module) and not hasattr(module, "bert_pack_inputs")


def example_ids(rows: int = 2, columns: int = 3) -> dict[str, tf.Tensor]:
    """Example inputs of an encoder, for its call and its signature: int32 [B, S] by name."""
    ones = tf.ones([rows, columns], tf.int32)
    values = ones, ones, tf.zeros_like(ones)  # every network has type 0
    return dict(zip(ENCODER_INPUTS, values, strict=True))


def module_requests(folder: Path, module: Any) -> Requests:
    """Requests for a module's signatures: `example_ids` for an encoder, else its warm-up requests."""
    return dict.fromkeys(module.signatures, example_ids()) if is_encoder(module) else read_requests(folder)


def run_module(module: Any) -> ModuleAnswers:
    """Calls a preprocessor, or an encoder and its heads, and returns the outputs; else an empty dict."""
    if hasattr(module, "bert_pack_inputs"):
        return _to_arrays("call", module(tf.constant(EXAMPLE_TEXT)))
    if not is_encoder(module):
        return {}
    ids = example_ids()
    answers = _to_arrays("call", module(ids))
    for head in ("mlm", "sop", "nsp"):
        if hasattr(module, head):
            positions = {MLM_POSITIONS: tf.ones([2, 1], tf.int32)} if head == "mlm" else {}
            answers |= _to_arrays(head, getattr(module, head)({**ids, **positions}))
    return answers


def run_signatures(signatures: Mapping[str, Any], requests: Requests) -> ModuleAnswers:
    """Calls signatures with requests and returns their outputs."""
    answers: ModuleAnswers = {}
    for name, inputs in requests.items():
        answers |= _to_arrays(name, signatures[name](**inputs))
    return answers


def run_in_session(folder: Path, requests: Requests) -> ModuleAnswers:
    """Runs signatures in a session of TensorFlow 1, as TF Serving does, and returns their outputs."""
    answers: ModuleAnswers = {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def
        for name, inputs in requests.items():
            feeds = {signatures[name].inputs[key].name: value.numpy() for key, value in inputs.items()}
            fetches = {key: info.name for key, info in signatures[name].outputs.items()}
            answers |= _to_arrays(name, session.run(fetches, feeds))
    return answers


def _to_arrays(name: str, outputs: Mapping[str, Any]) -> ModuleAnswers:
    """Outputs as arrays, named `<name>/<output>/<index>`."""
    return {
        f"{name}/{key}/{index}": np.asarray(tensor)
        for key, output in outputs.items()
        for index, tensor in enumerate(tf.nest.flatten(output))
    }


# The ops of TF Text that an exported graph may hold. They are in TF Text's `ops_lib`, which TF Serving links.
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

# Largest difference between two loaders, and between a module and the model it was made of. It is relative to
# numbers above 1, such as a regression's.
TOLERANCE, BFLOAT16_TOLERANCE = 1e-5, 0.05


class CheckFailed(WorkFailed):
    """An exported module has a fault. The message names the module and the fault."""


def check(folder: Path, expected: ModuleAnswers | None = None) -> set[str]:
    """Loads a module as TensorFlow 2 does and as TF Serving does, and inspects its graph.

    Args:
      folder: folder of the SavedModel.
      expected: outputs of the model in memory, from `run_module` and `run_signatures`. None: not compared.
    Returns:
      The names of the ops in the module.
    Raises:
      CheckFailed: the module does not load, its outputs differ, or `find_faults` found a fault.
    """
    check_no_glob(folder, "folder")
    try:
        module = tf.saved_model.load(str(folder))
        requests = module_requests(folder, module)
        signature_answers = run_signatures(module.signatures, requests)
        session_answers = run_in_session(folder, requests)
        answers = {**run_module(module), **signature_answers}
    except Exception as error:  # loaders raise errors of many types
        raise CheckFailed(f"{folder} does not load and answer: {error}") from error
    is_narrow = any(variable.dtype == tf.bfloat16 for variable in getattr(module, "variables", ()))
    tolerance = BFLOAT16_TOLERANCE if is_narrow else TOLERANCE
    _check_equal(f"{folder}, as TensorFlow 1 and 2 load it", session_answers, signature_answers, tolerance)
    if expected is not None:
        _check_equal(f"{folder}, against the model in memory", answers, expected, tolerance)
    for fault in find_faults(folder, module):
        raise CheckFailed(f"{folder} {fault}: export it anew")
    return saved_ops(folder)


def _check_equal(what: str, actual: ModuleAnswers, expected: ModuleAnswers, tolerance: float) -> None:
    """Raises CheckFailed if two sets of answers have different names, shapes or numbers.

    Strings may differ: tokens for a mask that have nearly the same score may change places.
    """
    if differing := sorted(expected.keys() ^ actual.keys()):
        raise CheckFailed(f"{what}: only one of the two answers {differing[0]}")
    for name, a in sorted(actual.items()):
        b = expected[name]
        if a.shape != b.shape:
            raise CheckFailed(f"{what}: {name} has the shapes {a.shape} and {b.shape}")
        if a.dtype != object and not np.allclose(a, b, rtol=tolerance, atol=tolerance):
            raise CheckFailed(f"{what}: {name} differs by {np.abs(a - b).max():.3g}")


def find_faults(folder: Path, module: Any) -> Iterator[str]:
    """Yields the faults of a module that was loaded from a folder, each as a phrase that begins with a verb.

    Faults are: an asset or a warm-up request is missing; a tensor of a signature is not dense, or fixes the
    batch size; an encoder has no signature; an op is an Assert, calls Python, or is not in TF Serving.
    """
    saved = _read_saved_model(folder)
    if lacking := sorted(set(module.signatures) - set(module_requests(folder, module))):
        yield f"has no request for {', '.join(lacking)} in {WARM_UP_FILE}"
    if is_encoder(module) and DEFAULT not in module.signatures:
        yield f"has no signature {DEFAULT} for other runtimes"
    # A server may merge requests into a batch, and then splits every output by rows. So all tensors must be
    # dense and have one row for each row of the request.
    for name, signature in (item for meta in saved.meta_graphs for item in meta.signature_def.items()):
        for key, info in (*signature.inputs.items(), *signature.outputs.items()):
            sizes = [dimension.size for dimension in info.tensor_shape.dim]
            if not signature.method_name:  # loaders run it, servers do not
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


def _read_saved_model(folder: Path) -> saved_model_pb2.SavedModel:
    return saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())


def saved_ops(folder: Path) -> set[str]:
    """The names of all ops in a SavedModel's graphs and their functions."""
    return {
        node.op
        for meta in _read_saved_model(folder).meta_graphs
        for nodes in (meta.graph_def.node, *(f.node_def for f in meta.graph_def.library.function))
        for node in nodes
    }
