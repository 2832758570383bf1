"""An exported model without Python: the C program of examples/serving answers as Python does, bit for bit.

TensorFlow's C library loads a model as TF Serving does, and its package brings the library and its headers.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.pages import ROOT, blocks

PAGE = "examples/serving/README.md"
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> list[str]:
    """The program, and what its command ends in, by the commands of the page."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc: the program is not compiled")
    (block,) = (block for block in blocks(PAGE) if "gcc " in block.text)
    *lines, _, command = block.text.splitlines()
    folder = tmp_path_factory.mktemp("c")
    (folder / "examples").symlink_to(ROOT / "examples")
    script = "\n".join([*lines, f"printf '%s\\0' {command.partition('<')[0]}"])
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    word, model, signature, threads, *libraries = done.stdout.rstrip("\0").split("\0")
    assert (word, model, signature) == ("./answer", "demo-output/hub/serving/1", "serving_default")
    return [str(folder / "answer"), threads, *libraries]


def asked(program, model, signature, texts) -> subprocess.CompletedProcess:
    """What the program says to texts."""
    answer, threads, *libraries = program
    words = [answer, str(model), signature, threads, *libraries]
    lines = "\n".join([*texts, ""])
    return subprocess.run(words, input=lines, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(("signature", "count"), [("serving_default", 1000), ("fill_mask", 50)])
def test_answers_from_four_threads_are_those_of_python(program, exported, serving, signature, count):
    assert program[1] == "4"
    words = ["the", "sea", 'a "quoted" word', "back\\slash", "été", "clock", "[MASK]", "A stone", "\t", ""]
    texts = [" ".join(words[number // 10**place % 10] for place in range(4)) for number in range(count)]
    done = asked(program, exported.serving, signature, texts)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{len(serving.signatures)} warm-up requests answered" in done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == count
    for text, answer in zip(texts, found, strict=True):
        expected = serving.signatures[signature](text=tf.constant([text]))
        assert answer.keys() == expected.keys()
        for name, tensor in expected.items():
            items = tensor.numpy().ravel()
            if tensor.dtype == tf.string:
                assert answer[name] == [item.decode() for item in items]
            else:
                np.testing.assert_array_equal(np.array(answer[name], "float32"), items)


@pytest.mark.parametrize(
    ("signature", "line"),
    [
        ("nothing", "answer: nothing: the model has no such signature"),
        ("pair", "answer: pair: takes more than one text"),
    ],
)
def test_what_it_cannot_answer_is_a_line(program, exported, signature, line):
    done = asked(program, exported.serving, signature, ["A stone"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == line
