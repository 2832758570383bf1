"""How many texts per second does a server answer, one at a time and in batches?

    python -m benchmarks.serving

Exports a classifier of albert_base's shape with random weights, or the run of --run, and serves it on
loopback from a process that stands in for TF Serving. The process computes each request by itself, or
TensorFlow's batching, whose code TF Serving has, too, collects requests for at most 2 ms into at most 32
rows. Clients of examples/serving/load_test.py send sentences of different lengths. Prints Markdown.
"""

from __future__ import annotations

import argparse
import functools
import os
import subprocess
import sys
import tempfile
import time
from concurrent import futures
from pathlib import Path

from benchmarks import smoke

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "examples/serving"))  # its modules import each other as scripts do

MAX_BATCH_SIZE, WAIT_MS = 32, 2  # also in examples/serving/batching.config


def main() -> None:
    """Prints a table without batching, and one with it."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument(
        "--run", type=Path, help="run directory of a classifier (albert_base's shape, untrained)"
    )
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[1, 4, 16, 64], help="numbers of clients (1 4 16 64)"
    )
    parser.add_argument("--seconds", type=float, default=20, help="seconds for each row (20)")
    parser.add_argument("--serve", nargs=2, metavar=("MODEL", "BATCHED"), help=argparse.SUPPRESS)
    options = smoke.read_flags(parser, clients=(1, 2), seconds=0.5)
    if options.serve:
        serve(*options.serve)
        return
    from load_test import HEAD, measure_load

    from hub_export.export import export

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = options.run or write_untrained_run(folder, smoke.PRESET if options.smoke else "albert_base_v2")
        export(run, folder / "hub", check=False)
        texts = smoke.sentences(500)
        for batched in (False, True):
            print(f"\n{'Batched' if batched else 'One at a time'}:\n\n{HEAD}")
            command = [sys.executable, "-m", "benchmarks.serving", "--serve", str(folder / "hub/serving/1")]
            with subprocess.Popen(
                [*command, str(batched)], cwd=ROOT, stdout=subprocess.PIPE, text=True
            ) as server:
                try:
                    address = f"localhost:{int(server.stdout.readline())}"
                    measure = functools.partial(measure_load, address, texts, signature="serving_default")
                    measure(clients=max(options.clients), seconds=min(options.seconds, 3))  # warms up
                    for clients in options.clients:
                        print(measure(clients=clients, seconds=options.seconds).row(), flush=True)
                finally:
                    server.kill()


def write_untrained_run(folder: Path, preset: str) -> Path:
    """Writes the run directory of a classifier with random weights."""
    import albert_tf

    vocabulary = smoke.vocabulary()
    config = albert_tf.PRESETS[preset].replace(vocab_size=smoke.VOCABULARY_SIZE)
    model = albert_tf.AlbertClassifier(config, num_labels=2)
    task = {"task": "classification", "labels": ["bad", "good"], "seq_length": 128}
    albert_tf.save(model, folder / "run", vocabulary=vocabulary, task=task)
    return folder / "run"


def serve(model: str, batched: str) -> None:
    """Prints a port, and serves a model at it for an hour."""
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    import albert_tf.text.tokenizer  # noqa: F401, registers the ops of TF Text

    module = tf.saved_model.load(model)  # keeps the variables of the signature alive
    signature = module.signatures["serving_default"]
    names = sorted(signature.structured_outputs)

    def call_signature(text: tf.Tensor) -> list[tf.Tensor]:
        outputs = signature(text=text)
        return [outputs[name] for name in names]

    batching = tf.nondifferentiable_batch_function(
        num_batch_threads=os.cpu_count(),
        max_batch_size=MAX_BATCH_SIZE,
        batch_timeout_micros=1000 * WAIT_MS,
        allowed_batch_sizes=[*range(1, MAX_BATCH_SIZE + 1)],
        max_enqueued_batches=1000,
    )
    compute = tf.function(
        batching(call_signature) if batched == "True" else call_signature,
        input_signature=[tf.TensorSpec([None], tf.string)],
    ).get_concrete_function()

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request: predict_pb2.PredictRequest, context: grpc.ServicerContext):
            text = tf.constant(tf.make_ndarray(request.inputs["text"]))
            response = predict_pb2.PredictResponse()
            for name, tensor in zip(names, compute(text), strict=True):
                response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(128))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    print(port, flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main()
