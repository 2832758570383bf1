"""Requests to modules, and their answers in memory, in TensorFlow 2, and in a session as in TF Serving."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

from albert_tf.features import ENCODER_INPUTS, MLM_POSITIONS

Answers = dict[str, np.ndarray]
Requests = Mapping[str, Mapping[str, tf.Tensor]]  # the inputs of signatures by their names

TEXT = ["Warm words before the first visitor.", ""]

# What TF Serving answers for itself before a version takes its first request; in the folder of a version.
REQUESTS = Path("assets.extra/tf_serving_warmup_requests")


def write_requests(folder: Path, requests: Iterable[tuple[str, Mapping[str, tf.Tensor]]]) -> None:
    """Writes the warm-up file of a SavedModel: names of signatures, and the inputs of a request by name."""
    path = folder / REQUESTS
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
    path = folder / REQUESTS
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


def of_call(module: Any) -> Answers:
    """Outputs of a preprocessor or an encoder, and of the encoder's heads, when called; else nothing."""
    if hasattr(module, "bert_pack_inputs"):
        return _arrays("call", module(tf.constant(TEXT)))
    if not is_encoder(module):
        return {}
    ids = example_ids()
    found = _arrays("call", module(ids))
    for head in ("mlm", "sop", "nsp"):
        if hasattr(module, head):
            positions = {MLM_POSITIONS: tf.ones([2, 1], tf.int32)} if head == "mlm" else {}
            found |= _arrays(head, getattr(module, head)({**ids, **positions}))
    return found


def of_signatures(signatures: Mapping[str, Any], requests: Requests) -> Answers:
    """Answers of signatures to requests."""
    found: Answers = {}
    for name, inputs in requests.items():
        found |= _arrays(name, signatures[name](**inputs))
    return found


def in_session(folder: Path, requests: Requests) -> Answers:
    """Answers of signatures in a session of TensorFlow 1, as in TF Serving."""
    found: Answers = {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(folder)).signature_def
        for name, inputs in requests.items():
            fed = {signatures[name].inputs[key].name: value.numpy() for key, value in inputs.items()}
            fetched = {key: info.name for key, info in signatures[name].outputs.items()}
            found |= _arrays(name, session.run(fetched, fed))
    return found


def _arrays(name: str, outputs: Mapping[str, Any]) -> Answers:
    """Outputs as arrays, named `<name>/<output>/<place in it>`."""
    return {
        f"{name}/{key}/{place}": np.asarray(tensor)
        for key, output in outputs.items()
        for place, tensor in enumerate(tf.nest.flatten(output))
    }
