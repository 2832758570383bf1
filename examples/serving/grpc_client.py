"""Asks TF Serving over gRPC: what a model answers to texts, and what a [MASK] stands for.

python examples/serving/grpc_client.py --address localhost:8500 "The water is [MASK]."
python examples/serving/grpc_client.py --signature pair --inputs '{"text": ["One."], "text_pair": ["Two."]}'
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

import grpc
import numpy as np
import tensorflow as tf
from absl import app
from printing import lines, parser, requests_of
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def connect(address: str, is_own: bool = False) -> grpc.Channel:
    """A channel to the server at `host:port`, for answers of any size: gRPC's own limit is 4 MB.

    With `is_own` it has a connection of its own; otherwise channels to one server share one.
    """
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", int(is_own))]
    return grpc.insecure_channel(address, options=options)


def predict(
    channel: grpc.Channel,
    signature: str,
    inputs: Mapping[str, Sequence],
    model: str = "albert",
    version: int | None = None,
    seconds: float = 10.0,
) -> dict[str, np.ndarray]:
    """The answer of one signature.

    Args:
      channel: to the server, as `connect` makes it.
      signature: "serving_default", "pair", "answer" or another that the model has.
      inputs: its inputs by name, a row an example: texts, or token ids.
      model: as models.config names it.
      version: None asks the newest.
      seconds: how long to wait.
    Returns:
      Its outputs by name; strings as bytes.
    Raises:
      grpc.RpcError: the server refuses the request (INVALID_ARGUMENT says why), or cannot be reached.
    """
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    if version is not None:
        request.model_spec.version.value = version
    for name, rows in inputs.items():
        dtype = tf.int32 if np.asarray(rows).dtype.kind == "i" else tf.string
        request.inputs[name].CopyFrom(tf.make_tensor_proto(rows, dtype))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    response = stub.Predict(request, timeout=seconds)
    return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    return parser(__doc__, "localhost:8500").parse_args(arguments[1:])


def main(options: argparse.Namespace) -> None:
    """Prints what the server answers to the command line."""
    with connect(options.address) as channel:
        try:
            for signature, inputs in requests_of(options):
                outputs = predict(channel, signature, inputs)
                for line in lines(inputs, {name: listed(array) for name, array in outputs.items()}):
                    print(line)
        except grpc.RpcError as error:
            sys.exit(f"{options.address}: {error.details()}")


def listed(array: np.ndarray) -> list:
    """An array as nested lists, its bytes as texts."""
    return (np.char.decode(array.astype("S"), "utf-8") if array.dtype == object else array).tolist()


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
