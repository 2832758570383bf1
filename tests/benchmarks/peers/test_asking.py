"""A program that does not answer ends in one line that says which, what and why, and soon."""

import sys
import time

import pytest

from benchmarks.peers.asking import Asked, NoAnswer

# Says a first line, and then what the question asks for.
PROGRAM = """
import json, os, signal, sys, time
print(json.dumps({"parameters": 7}), flush=True)
for line in sys.stdin:
    question = json.loads(line)
    if question["do"] == "hang":
        time.sleep(60)
    if question["do"] == "die":
        sys.exit("no such kernel")
    if question["do"] == "be killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if question["do"] == "fail":
        print(json.dumps({"error": "ValueError: odd"}), flush=True)
    else:
        print(json.dumps({"seconds": [question["times"]]}), flush=True)
"""


@pytest.fixture
def program(tmp_path):
    asked = Asked("them", [sys.executable, "-c", PROGRAM], {}, tmp_path / "log", patience=20)
    yield asked
    asked.close()


def test_answers_follow_questions(program):
    assert program.first() == {"parameters": 7}
    for times in (3, 4):
        assert program.ask({"do": "run", "case": "a", "times": times}) == {"seconds": [times]}


def test_who_hangs_is_ended(program):
    program.first()
    started = time.monotonic()
    with pytest.raises(NoAnswer, match=r"^them: no answer to hang a in 0 s: ended$"):
        program.ask({"do": "hang", "case": "a"}, patience=0.2)
    assert program.process.poll() is not None
    with pytest.raises(NoAnswer, match=r"^them: was ended by SIGKILL"):
        program.ask({"do": "run", "case": "a", "times": 1})
    assert time.monotonic() - started < 10


def test_who_ended_is_told_with_its_last_words(program):
    program.first()
    with pytest.raises(NoAnswer, match=r"^them: ended with status 1 at die a; it last said: no such kernel$"):
        program.ask({"do": "die", "case": "a"})
