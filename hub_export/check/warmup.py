"""Warm-up requests: what TF Serving answers for itself before a version takes its first request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

REQUESTS = Path("assets.extra/tf_serving_warmup_requests")  # in the folder of a version


def write_requests(folder: Path, requests: Mapping[str, Mapping[str, tf.Tensor]]) -> None:
    """Writes the warm-up file of a SavedModel.

    Args:
      folder: of the SavedModel.
      requests: the inputs by name, of one request for each signature.
    """
    path = folder / REQUESTS
    path.parent.mkdir()
    with tf.io.TFRecordWriter(str(path)) as file:
        for signature, inputs in requests.items():
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = signature
            for name, tensor in inputs.items():
                request.inputs[name].CopyFrom(tf.make_tensor_proto(tensor))
            log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
            file.write(log.SerializeToString())


def read_requests(folder: Path) -> dict[str, dict[str, tf.Tensor]]:
    """The inputs of the warm-up requests of a SavedModel by signature; none where it has no such file."""
    found, path = {}, folder / REQUESTS
    for record in tf.data.TFRecordDataset(str(path)) if path.exists() else ():
        request = prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        inputs = {name: tf.constant(tf.make_ndarray(proto)) for name, proto in request.inputs.items()}
        found[request.model_spec.signature_name] = inputs
    return found
