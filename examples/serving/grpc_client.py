"""Asks TF Serving over gRPC: embeddings of texts, and what a [MASK] stands for.

python examples/serving/grpc_client.py --address localhost:8500 "The water is [MASK]."
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence

import grpc
import numpy as np
import tensorflow as tf
from absl import app
from absl.flags import argparse_flags
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


def connect(address: str) -> grpc.Channel:
    """A channel to the server at `host:port`, for answers of any size: gRPC's own limit is 4 MB."""
    return grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])


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
      signature: "serving_default", "pair", "tokens" or "fill_mask".
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
        dtype = tf.string if name.startswith("text") else tf.int32
        request.inputs[name].CopyFrom(tf.make_tensor_proto(rows, dtype))
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    response = stub.Predict(request, timeout=seconds)
    return {name: tf.make_ndarray(tensor) for name, tensor in response.outputs.items()}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse_flags.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--address", default="localhost:8500", help="host:port (localhost:8500)")
    parser.add_argument("text", nargs="+")
    return parser.parse_args(arguments[1:])


def main(options: argparse.Namespace) -> None:
    """Prints what the server answers about the texts of the command line."""
    with connect(options.address) as channel:
        try:
            show(channel, options.text)
        except grpc.RpcError as error:
            sys.exit(f"{options.address}: {error.details()}")


def show(channel: grpc.Channel, texts: Sequence[str]) -> None:
    """Prints the embeddings of texts, and what fills their masks."""
    embeddings = predict(channel, "serving_default", {"text": texts})["pooled_output"]
    for text, embedding in zip(texts, embeddings, strict=True):
        print(f"{text}\n  {embedding.size} numbers: {np.round(embedding[:4], 3)} …")
    masked = [text for text in texts if "[MASK]" in text]
    if not masked:
        return
    filled = predict(channel, "fill_mask", {"text": masked})
    for text, masks, scores in zip(masked, filled["tokens"], filled["scores"], strict=True):
        print(text)
        for words, shares in zip(masks, scores, strict=True):
            if shares[0] > 0:  # else another text of the batch has more masks
                answers = zip(words, shares, strict=True)
                print("  " + ", ".join(f"{word.decode()} {share:.1%}" for word, share in answers))


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
