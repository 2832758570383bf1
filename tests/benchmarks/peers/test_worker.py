"""The programs' side of the lines: what is prepared, run and answered where something fails."""

import io
import json

import numpy as np
import pytest

from benchmarks.peers.worker import serve

CASE = "forward-1x16-float32"


class Network:
    """Answers with pooled outputs of 0.25, and counts its calls."""

    def __init__(self, answer=0.25):
        self.answer, self.calls = answer, 0

    def forward(self, inputs):
        rows = len(inputs["input_word_ids"])

        def call():
            self.calls += 1
            return np.full([rows, 4], self.answer, np.float32)

        return call

    def update(self, batch):
        raise NotImplementedError("no optimizer\nat all")

    def text(self):
        return lambda texts: np.array([[len(text)] for text in texts], np.float32)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text('{"vocab_size": 50}', "utf-8")
    (tmp_path / "sentences.json").write_text(json.dumps(["a" * n for n in range(40)]), "utf-8")
    np.save(tmp_path / "expected-forward-1x16.npy", np.zeros([1, 4], np.float32))
    np.save(tmp_path / "expected-text-32x128.npy", np.arange(32, dtype=np.float32)[:, None] + 0.5)
    return tmp_path


def asked(network, folder, *questions):
    answers = io.StringIO()
    serve(
        network, folder, io.StringIO("".join(json.dumps(question) + "\n" for question in questions)), answers
    )
    return [json.loads(line) for line in answers.getvalue().splitlines()]


def test_a_case_is_warmed_up_compared_and_run_so_often(folder):
    network = Network()
    prepared, run = asked(
        network, folder, {"do": "prepare", "case": CASE}, {"do": "run", "case": CASE, "times": 3}
    )
    assert prepared["difference"] == 0.25 and prepared["seconds"] > 0
    assert len(run["seconds"]) == 3 and min(run["seconds"]) > 0
    assert 10**7 < run["peak"] < 10**12
    assert network.calls == 2 + 3


@pytest.mark.parametrize(
    ("network", "case", "error"),
    [
        (Network(), "update-8x128-float32", "NotImplementedError: no optimizer"),
        (Network(np.nan), CASE, "ValueError: the answer is not finite"),
        (Network(), "forward-8x128-float32", None),  # nothing to compare with
    ],
)
def test_a_failure_is_an_answer(network, case, error, folder):
    failed, after = asked(
        network, folder, {"do": "prepare", "case": case}, {"do": "prepare", "case": "text-32x128-float32"}
    )
    assert failed.get("error") == error
    assert "error" not in after
