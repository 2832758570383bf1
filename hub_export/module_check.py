"""Whether an exported module loads, answers, and suits TF Serving."""

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

ModuleAnswers = dict[str, np.ndarray]
Requests = Mapping[str, Mapping[str, tf.Tensor]]  # the inputs of signatures by their names

EXAMPLE_TEXT = ["Warm words before the first visitor.", ""]

# What TF Serving answers for itself before a version takes its first request; in the folder of a version.
WARM_UP_FILE = Path("assets.extra/tf_serving_warmup_requests")


def write_requests(folder: Path, requests: Iterable[tuple[str, Mapping[str, tf.Tensor]]]) -> None:
    """Writes the warm-up file of a SavedModel: names of signatures, and the inputs of a request by name."""
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
    """The inputs of the first warm-up request of each signature; none where a SavedModel has no such file."""
    path = folder / WARM_UP_FILE
    found: dict[str, Mapping[str, tf.Tensor]] = {}
    for record in tf.data.TFRecordDataset(str(path)) if path.exists() else ():
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        inputs = {name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()}
        found.setdefault(request.model_spec.signature_name, inputs)
    return found


def is_encoder(module: Any) -> bool:
    """True if a module is to be called with token ids."""
    return callable(module) and not hasattr(module, "bert_pack_inputs")


def example_ids(rows: int = 2, columns: int = 3) -> dict[str, tf.Tensor]:
    """Inputs of encoders, in a call and by a signature: int32 [B, S] by name."""
    ones = tf.ones([rows, columns], tf.int32)
    values = ones, ones, tf.zeros_like(ones)  # every network has type 0
    return dict(zip(ENCODER_INPUTS, values, strict=True))


def requests_of(folder: Path, module: Any) -> Requests:
    """Requests of a module's signatures: its warm-up requests, an encoder's the same as its call."""
    return dict.fromkeys(module.signatures, example_ids()) if is_encoder(module) else read_requests(folder)


def of_call(module: Any) -> ModuleAnswers:
    """Outputs of a preprocessor or an encoder, and of the encoder's heads, when called; else nothing."""
    if hasattr(module, "bert_pack_inputs"):
        return _arrays("call", module(tf.constant(EXAMPLE_TEXT)))
    if not is_encoder(module):
        return {}
    ids = example_ids()
    found = _arrays("call", module(ids))
    for head in ("mlm", "sop", "nsp"):
        if hasattr(module, head):
            positions = {MLM_POSITIONS: tf.ones([2, 1], tf.int32)} if head == "mlm" else {}
            found |= _arrays(head, getattr(module, head)({**ids, **positions}))
    return found


def of_signatures(signatures: Mapping[str, Any], requests: Requests) -> ModuleAnswers:
    """Answers of signatures to requests."""
    found: ModuleAnswers = {}
    for name, inputs in requests.items():
        found |= _arrays(name, signatures[name](**inputs))
    return found


def in_session(folder: Path, requests: Requests) -> ModuleAnswers:
    """Answers of signatures in a session of TensorFlow 1, as in TF Serving."""
    found: ModuleAnswers = {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def
        for name, inputs in requests.items():
            fed = {signatures[name].inputs[key].name: value.numpy() for key, value in inputs.items()}
            fetched = {key: info.name for key, info in signatures[name].outputs.items()}
            found |= _arrays(name, session.run(fetched, fed))
    return found


def _arrays(name: str, outputs: Mapping[str, Any]) -> ModuleAnswers:
    """Outputs as arrays, named `<name>/<output>/<place in it>`."""
    return {
        f"{name}/{key}/{place}": np.asarray(tensor)
        for key, output in outputs.items()
        for place, tensor in enumerate(tf.nest.flatten(output))
    }


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


def check(folder: Path, expected: ModuleAnswers | None = None) -> set[str]:
    """Loads a module as TensorFlow 2 does and as TF Serving does, and looks into its graph.

    `expected` is what the model in memory answers, by `of_call` and `of_signatures`. Returns
    the names of the ops in it.

    Raises:
      CheckFailed: it does not load, or answers nothing or otherwise, or has one of the `find_faults`.
    """
    check_no_glob(folder, "folder")
    try:
        module = tf.saved_model.load(str(folder))
        requests = requests_of(folder, module)
        answered = of_signatures(module.signatures, requests)
        as_served = in_session(folder, requests)
        called = of_call(module)
    except Exception as error:  # whatever it is that loaders raise
        raise CheckFailed(f"{folder} does not load and answer: {error}") from error
    is_narrow = any(variable.dtype == tf.bfloat16 for variable in getattr(module, "variables", ()))
    tolerance = BFLOAT16_TOLERANCE if is_narrow else TOLERANCE
    _compare(f"{folder}, as TensorFlow 1 and 2 load it", as_served, answered, tolerance)
    if expected is not None:
        _compare(f"{folder}, against the model in memory", {**called, **answered}, expected, tolerance)
    for fault in find_faults(folder, module):
        raise CheckFailed(f"{folder} {fault}: export it anew")
    return saved_ops(folder)


def _compare(what: str, actual: ModuleAnswers, expected: ModuleAnswers, tolerance: float) -> None:
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


def find_faults(folder: Path, module: Any) -> Iterator[str]:
    """The fault of a module that is loaded from a folder, in words from the verb on.

    An asset or a warm-up request is missing; a tensor of a signature is not dense, or fixes the size of a
    batch; an encoder has no signature; there is an op that TF Serving lacks, an Assert or Python.
    """
    saved = _saved_model(folder)
    if lacking := sorted(set(module.signatures) - set(requests_of(folder, module))):
        yield f"has no request for {', '.join(lacking)} in {WARM_UP_FILE}"
    if is_encoder(module) and DEFAULT not in module.signatures:
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
