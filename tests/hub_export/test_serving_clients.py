"""The clients of examples/serving against servers in this process that run the exported model.

The servers do what TF Serving's documentation says of its interfaces; TF Serving itself is not run here.
"""

import contextlib
import importlib.util
import json
import socket
import subprocess
import sys
import threading
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc
from tensorflow_serving.config.model_server_config_pb2 import ModelServerConfig

import albert_tf
from hub_export.serving import Served, serving_signatures
from tests.tiny import TINY

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/serving"
TEXTS = ["The old clock", "A stone [MASK]", "[MASK] and [MASK]"]


sys.path.append(str(EXAMPLES))  # as a script has its own folder there


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


grpc_client, rest_client = load_script("grpc_client"), load_script("rest_client")
printing = load_script("printing")


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


@contextlib.contextmanager
def grpc_server(serving):
    server = grpc.server(futures.ThreadPoolExecutor(2))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(PredictionService(serving), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    yield f"localhost:{port}"
    server.stop(0)


@pytest.fixture(scope="module")
def address(serving):
    with grpc_server(serving) as address:
        yield address


@pytest.fixture(scope="module")
def channel(address):
    with grpc_client.connect(address) as channel:
        yield channel


@contextlib.contextmanager
def rest_server(serving):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = 200, {}
            try:
                assert self.path in ("/v1/models/albert:predict", "/v1/models/albert/versions/1:predict")
                signature = serving.signatures[asked["signature_name"]]
                inputs = {name: tf.constant(rows) for name, rows in asked["inputs"].items()}
                outputs = {name: to_json(tensor) for name, tensor in signature(**inputs).items()}
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


@pytest.fixture(scope="module")
def url(serving):
    with rest_server(serving) as url:
        yield url


def to_json(tensor):
    array = tensor.numpy()
    return (texts_of(array) if array.dtype == object else array).tolist()


def texts_of(array):
    """Texts of UTF-8: what the model answers need not be ASCII."""
    return np.char.decode(array.astype("S"), "utf-8")


def test_models_config_is_of_the_servers_format():
    text = (EXAMPLES / "models.config").read_text(encoding="utf-8")
    (config,) = text_format.Parse(text, ModelServerConfig()).model_config_list.config
    assert config.name == "albert"  # as the clients call it
    assert f":{config.base_path}:ro" in (EXAMPLES / "compose.yaml").read_text(encoding="utf-8")


def test_serving_grpc_client_asks_every_signature(channel, serving):
    asked = {
        "serving_default": {"text": TEXTS},
        "pair": {"text": TEXTS, "text_pair": TEXTS[::-1]},
        "tokens": {name: [[2, 7, 3], [2, 8, 3]] for name in ("input_word_ids", "input_mask")}
        | {"input_type_ids": [[0, 0, 1], [0, 0, 0]]},
        "fill_mask": {"text": TEXTS},
    }
    assert sorted(asked) == sorted(serving.signatures)
    for signature, inputs in asked.items():
        answered = grpc_client.predict(channel, signature, inputs)
        expected = serving.signatures[signature](**{name: tf.constant(rows) for name, rows in inputs.items()})
        assert answered.keys() == expected.keys()
        for name, array in answered.items():
            if array.dtype == object:
                np.testing.assert_array_equal(array, expected[name])
            else:
                np.testing.assert_allclose(array, expected[name], rtol=0, atol=1e-6)


def test_serving_answers_of_more_than_4_mb_over_grpc(channel):
    ones = {name: np.ones([600, 64], np.int32) for name in ("input_word_ids", "input_mask", "input_type_ids")}
    assert grpc_client.predict(channel, "tokens", ones)["sequence_output"].nbytes > 4 << 20


def run(client, *words):
    client.main(client.parse(["client", *words]))


def test_clients_without_a_server_end_in_one_line():
    with socket.socket() as closed:  # bound, so that nothing else listens there
        closed.bind(("localhost", 0))
        where = f"localhost:{closed.getsockname()[1]}"
        for client, address in ((grpc_client, where), (rest_client, f"http://{where}")):
            with pytest.raises(SystemExit, match=f"^{address}: .*(refused|connect)"):
                run(client, "--address", address, "text")


def test_serving_wrong_requests_over_grpc(channel):
    wrong = [
        (
            "tokens",
            {name: [[999]] for name in ("input_word_ids", "input_mask", "input_type_ids")},
            "999 is not in",
        ),
        ("pair", {"text": ["a", "b"], "text_pair": ["c"]}, "Shapes of all inputs must match"),
        ("serving_default", {"text": [["a"]]}, "is not compatible with expected shape"),
        ("serving_default", {"texts": ["a"]}, "missing a required (keyword-only )?argument: 'text'"),
    ]
    expected = grpc_client.predict(channel, "serving_default", {"text": ["a"]})
    for signature, inputs, message in wrong:
        with pytest.raises(grpc.RpcError, match=message) as refused:
            grpc_client.predict(channel, signature, inputs)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        answered = grpc_client.predict(channel, "serving_default", {"text": ["a"]}, version=1)
        np.testing.assert_allclose(answered["pooled_output"], expected["pooled_output"], rtol=0, atol=1e-6)
    with pytest.raises(grpc.RpcError) as refused:
        grpc_client.predict(channel, "serving_default", {"text": ["a"]}, version=7)
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def test_serving_rest_client(url, serving):
    pooled = rest_client.predict(url, "serving_default", {"text": TEXTS})
    expected = serving.signatures["serving_default"](text=tf.constant(TEXTS))["pooled_output"]
    np.testing.assert_allclose(pooled, expected, rtol=0, atol=1e-5)
    filled = rest_client.predict(url, "fill_mask", {"text": TEXTS}, version=1)
    tokens = serving.signatures["fill_mask"](text=tf.constant(TEXTS))["tokens"].numpy()
    assert filled["tokens"] == texts_of(tokens).tolist()
    with pytest.raises(
        ValueError, match=r"serving_default: .*missing a required (keyword-only )?argument: 'text'"
    ):
        rest_client.predict(url, "serving_default", {"texts": ["a"]})


def test_a_client_is_an_absl_app():
    with socket.socket() as closed:
        closed.bind(("localhost", 0))
        words = ["--address", f"http://localhost:{closed.getsockname()[1]}", "--verbosity=-1", "text"]
        command = [sys.executable, EXAMPLES / "rest_client.py", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr


def test_serving_clients_print_what_fills_a_mask(address, url, capsys):
    printed = []
    for client, where in ((grpc_client, address), (rest_client, url)):
        run(client, "--address", where, *TEXTS)
        printed.append(capsys.readouterr().out.splitlines())
    for lines in printed:
        assert lines[0] == "The old clock"
        assert lines[1].startswith("  32 numbers: ")
        assert lines[6] == "A stone [MASK]"
        assert lines[7].count("%") == 5
        assert len(lines) == 6 + 2 + 3
    assert printed[0][6:] == printed[1][6:]


def test_serving_clients_ask_any_signature(address, url, capsys):
    pair = json.dumps({"text": TEXTS[:2], "text_pair": TEXTS[1:]})
    for client, where in ((grpc_client, address), (rest_client, url)):
        run(client, "--address", where, "--signature", "pair", "--inputs", pair)
        lines = capsys.readouterr().out.splitlines()
        assert lines[::2] == ["The old clock | A stone [MASK]", "A stone [MASK] | [MASK] and [MASK]"]
        assert [line[:14] for line in lines[1::2]] == ["  32 numbers: "] * 2


def test_serving_clients_print_the_answers_of_a_fine_tuned_model(tiny_tokenizer, capsys):
    model = albert_tf.AlbertClassifier(TINY, num_labels=3)
    labels = ["schlecht", "so là là", "gut"]
    served = Served(model, tiny_tokenizer.tokenize, 24, {"labels": labels})
    functions = {name: signature.function for name, signature in serving_signatures(served).items()}
    fine_tuned = SimpleNamespace(signatures=functions)
    scores = functions["serving_default"](text=tf.constant(TEXTS[:1]))["scores"].numpy()[0]
    shares = ", ".join(f"{label} {score:.1%}" for label, score in zip(labels, scores, strict=True))
    best = scores.argmax()
    expected = [TEXTS[0], f"  label: {labels[best]}", f"  score: {scores[best]:.3f}", f"  {shares}"]
    with grpc_server(fine_tuned) as address, rest_server(fine_tuned) as url:
        for client, where in ((grpc_client, address), (rest_client, url)):
            run(client, "--address", where, TEXTS[0])
            assert sorted(capsys.readouterr().out.splitlines()) == sorted(expected)


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [
        (
            {"text": ["Good.", "Bad."]},
            {
                "label": ["yes", "no"],
                "score": [0.9, 0.6],
                "labels": [["no", "yes"], ["no", "yes"]],
                "scores": [[0.1, 0.9], [0.6, 0.4]],
            },
            [
                "Good.",
                "  label: yes",
                "  score: 0.900",
                "  no 10.0%, yes 90.0%",
                "Bad.",
                "  label: no",
                "  score: 0.600",
                "  no 60.0%, yes 40.0%",
            ],
        ),
        ({"text": ["Good."]}, {"": [4.25]}, ["Good.", "  4.250"]),
        (
            {"question": ["Who?"], "context": ["Ada."]},
            {"answer": ["Ada"], "score": [0.5], "start": [0], "end": [3], "no_answer_score": [-1.5]},
            [
                "Who? | Ada.",
                "  answer: Ada",
                "  score: 0.500",
                "  start: 0",
                "  end: 3",
                "  no_answer_score: -1.500",
            ],
        ),
        (
            {"text": ["in Rome", ""]},
            {
                "labels": [["O", "B"], ["", ""]],
                "scores": [[0.5, 0.75], [0.0, 0.0]],
                "start": [[0, 3], [0, 0]],
                "end": [[2, 7], [0, 0]],
            },
            [
                "in Rome",
                "  start: [0, 3]",
                "  end: [2, 7]",
                "  O 50.0%, B 75.0%",
                "",
                "  start: [0, 0]",
                "  end: [0, 0]",
            ],
        ),
        (
            {"context": ["c"], "question": ["q"], "options": [["a", "b"]]},
            {"choice": [1], "scores": [[0.25, 0.75]]},
            ["c | q | ['a', 'b']", "  choice: 1", "  scores: [0.250, 0.750]"],
        ),
    ],
)
def test_clients_print_a_row_and_its_answers(inputs, outputs, expected):
    assert list(printing.lines(inputs, outputs)) == expected


def test_texts_and_numbers_are_told_apart_whatever_their_name(monkeypatch):
    asked = {}

    class Stub:
        def __init__(self, channel):
            pass

        def Predict(self, request, timeout):
            asked.update({name: tf.make_ndarray(tensor) for name, tensor in request.inputs.items()})
            return predict_pb2.PredictResponse()

    monkeypatch.setattr(prediction_service_pb2_grpc, "PredictionServiceStub", Stub)
    grpc_client.predict(None, "choose", {"context": ["é"], "options": [["a", "bc"]], "ids": [[1, 2]]})
    assert {name: (array.dtype, array.tolist()) for name, array in asked.items()} == {
        "context": (object, ["é".encode()]),
        "options": (object, [[b"a", b"bc"]]),
        "ids": (np.int32, [[1, 2]]),
    }
