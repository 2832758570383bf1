"""The clients of examples/serving against servers in this process that run the exported model.

The servers do what TF Serving's documentation says of its interfaces; TF Serving itself is not run here.
"""

import importlib
import json
import socket
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/serving"
TEXTS = ["The old clock", "A stone [MASK]", "[MASK] and [MASK]"]
IDS = ("input_word_ids", "input_mask", "input_type_ids")

sys.path.append(str(EXAMPLES))  # as a script has its own folder there
grpc_client, rest_client, printing = map(importlib.import_module, ("grpc_client", "rest_client", "printing"))


class PredictionService(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Answers from the signatures of a loaded model named "albert", version 1."""

    def __init__(self, serving):
        self.signatures = serving.signatures

    def Predict(self, request, context):
        if request.model_spec.name != "albert" or request.model_spec.version.value not in (0, 1):
            context.abort(grpc.StatusCode.NOT_FOUND, f"Servable not found: {request.model_spec}")
        inputs = {name: tf.constant(tf.make_ndarray(tensor)) for name, tensor in request.inputs.items()}
        try:
            outputs = self.signatures[request.model_spec.signature_name](**inputs)
        except (TypeError, KeyError, tf.errors.InvalidArgumentError) as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        response = predict_pb2.PredictResponse()
        for name, tensor in outputs.items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(tensor))
        return response


@pytest.fixture(scope="module")
def address(serving):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(serving), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(0)


@pytest.fixture
def channel(address):
    with grpc_client.connect(address) as channel:
        yield channel


@pytest.fixture(scope="module")
def url(serving):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = 200, {}
            try:
                assert self.path in ("/v1/models/albert:predict", "/v1/models/albert/versions/1:predict")
                signature = serving.signatures[asked["signature_name"]]
                inputs = {name: tf.constant(rows) for name, rows in asked["inputs"].items()}
                outputs = {name: to_json(tensor.numpy()) for name, tensor in signature(**inputs).items()}
                answer["outputs"] = outputs if len(outputs) > 1 else next(iter(outputs.values()))
            except (AssertionError, KeyError, TypeError, tf.errors.InvalidArgumentError) as error:
                status, answer["error"] = 400, str(error)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()


def to_json(array):
    """Nested lists; what the model answers is UTF-8 and need not be ASCII."""
    return (np.char.decode(array.astype("S"), "utf-8") if array.dtype == object else array).tolist()


def run(client, *words):
    client.main(client.parse(["client", *words]))


def test_both_clients_ask_every_signature(channel, url, serving):
    asked = {
        "serving_default": {"text": TEXTS},
        "pair": {"text": TEXTS, "text_pair": TEXTS[::-1]},
        "tokens": dict(zip(IDS, ([[2, 7, 3]], [[1, 1, 1]], [[0, 0, 1]]), strict=True)),
        "fill_mask": {"text": TEXTS},
        "embed": {"text": TEXTS},
    }
    assert sorted(asked) == sorted(serving.signatures)
    for signature, inputs in asked.items():
        outputs = serving.signatures[signature](**{name: tf.constant(rows) for name, rows in inputs.items()})
        expected = {name: to_json(tensor.numpy()) for name, tensor in outputs.items()}
        over_grpc = grpc_client.predict(channel, signature, inputs)
        over_rest = rest_client.predict(url, signature, inputs, version=1)
        over_rest = over_rest if isinstance(over_rest, dict) else dict.fromkeys(expected, over_rest)
        for found in ({name: to_json(array) for name, array in over_grpc.items()}, over_rest):
            assert found.keys() == expected.keys()
            for name, values in found.items():
                if name == "tokens":
                    assert values == expected[name]
                else:
                    np.testing.assert_allclose(values, expected[name], rtol=0, atol=1e-5)


def test_answers_of_more_than_4_mb_over_grpc(channel):
    ones = {name: np.ones([600, 64], np.int32) for name in IDS}
    assert grpc_client.predict(channel, "tokens", ones)["sequence_output"].nbytes > 4 << 20


def test_clients_without_a_server_end_in_one_line():
    with socket.socket() as closed:  # bound, so that nothing else listens there
        closed.bind(("localhost", 0))
        where = f"localhost:{closed.getsockname()[1]}"
        with pytest.raises(SystemExit, match=f"^{where}: .*(refused|connect)"):
            run(grpc_client, "--address", where, "text")
        with pytest.raises(SystemExit, match="no server answers"):
            run(rest_client, "--address", f"http://{where}", "text")


def test_wrong_requests_are_refused(channel, url):
    for signature, inputs, message in (
        ("tokens", {name: [[999]] for name in IDS}, "999 is not in"),
        ("pair", {"text": ["a", "b"], "text_pair": ["c"]}, "Shapes of all inputs must match"),
        ("serving_default", {"texts": ["a"]}, "'text'"),
    ):
        with pytest.raises(grpc.RpcError, match=message) as refused:
            grpc_client.predict(channel, signature, inputs)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(ValueError, match=f"(?s){signature}: .*{message}"):
            rest_client.predict(url, signature, inputs)
    with pytest.raises(grpc.RpcError) as refused:
        grpc_client.predict(channel, "serving_default", {"text": ["a"]}, version=7)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_clients_print_answers_and_what_fills_a_mask(address, url, capsys):
    pair = json.dumps({"text": TEXTS[:2], "text_pair": TEXTS[1:]})
    filled = []
    for client, where in ((grpc_client, address), (rest_client, url)):
        run(client, "--address", where, *TEXTS)
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "The old clock"
        assert lines[1].startswith("  32 numbers: ")
        assert lines[6] == "A stone [MASK]"
        assert lines[7].count("%") == 5
        filled.append(lines[6:])
        run(client, "--address", where, "--signature", "pair", "--inputs", pair)
        lines = capsys.readouterr().out.splitlines()
        assert lines[::2] == ["The old clock | A stone [MASK]", "A stone [MASK] | [MASK] and [MASK]"]
    assert len(filled[0]) == 2 + 3
    assert filled[0] == filled[1]
