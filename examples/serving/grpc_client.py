"""Sends texts to TF Serving over gRPC, and prints the answers of a model and the tokens for a [MASK].

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
from printing import create_parser, format_response, list_requests
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def connect(address: str, is_own: bool = False) -> grpc.Channel:
    """A channel to the server at `host:port`, for responses of any size (gRPC's default limit is 4 MB).

    With `is_own` the channel has a connection of its own. Otherwise channels to one server share one.
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
    """Calls a signature of a model.

    Args:
      channel: channel to the server, from `connect`.
      signature: "serving_default", "pair", "answer" or another signature of the model.
      inputs: inputs of the signature by name, a row for each example: texts, or token ids.
      model: name of the model in models.config.
      version: version of the model; None: the newest.
      seconds: time to wait for the response.
    Returns:
      Outputs of the signature by name; strings are bytes.
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
    """Parses the command line."""
    return create_parser(__doc__, "localhost:8500").parse_args(arguments[1:])


def main(options: argparse.Namespace) -> None:
    """Prints the server's responses."""
    with connect(options.address) as channel:
        try:
            for signature, inputs in list_requests(options):
                outputs = predict(channel, signature, inputs)
                lists = {name: to_list(array) for name, array in outputs.items()}
                for line in format_response(inputs, lists):
                    print(line)
        except grpc.RpcError as error:
            sys.exit(f"{options.address}: {error.details()}")


def to_list(array: np.ndarray) -> list:
    """An array as nested lists, with texts in place of bytes."""
    return (np.char.decode(array.astype("S"), "utf-8") if array.dtype == object else array).tolist()


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
