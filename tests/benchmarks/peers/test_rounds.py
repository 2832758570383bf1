"""Programs take turns, and who fails is left out with a line that says so."""

import json

import pytest

from benchmarks.peers import rounds
from benchmarks.peers.asking import NoAnswer
from benchmarks.peers.compared import CASES
from benchmarks.peers.results import Turn
from benchmarks.peers.rounds import started, take_turns

SHORT, LONG = CASES["forward-1x16-float32"], CASES["forward-8x512-float32"]


class Program:
    """Writes down who is asked what; answers as it is told."""

    def __init__(self, name, diary, prepared=None, fails_at=()):
        self.name, self.diary, self.fails_at = name, diary, list(fails_at)
        self.prepared = prepared or {"seconds": 0.1, "difference": 1e-6}

    def ask(self, question):
        self.diary.append((self.name, question["do"], question["case"], question.get("times")))
        if question["do"] == "prepare":
            return self.prepared
        if self.fails_at and self.fails_at.pop(0):
            raise NoAnswer(f"{self.name}: gone")
        return {"seconds": [0.1] * question["times"], "peak": 1}


def test_all_take_turns_case_by_case_in_every_round():
    diary = []
    programs = {name: Program(name, diary) for name in ("ours", "keras_hub", "openvino")}
    programs["keras_hub"].prepared = {"seconds": 7.0, "difference": None}
    programs["openvino"].prepared = {"seconds": 0.001, "difference": 0.0}
    turns = take_turns(programs, [SHORT, LONG], 2)
    calls = {"ours": 5, "keras_hub": 1, "openvino": 20}  # half a second, at least once, at most 20 times
    a_round = [(name, "run", case.name, calls[name]) for case in (SHORT, LONG) for name in programs]
    assert [entry for entry in diary if entry[1] == "run"] == 2 * a_round
    assert turns[LONG]["ours"] == [Turn([0.1] * 5, 1)] * 2


def test_another_answer_than_ours_is_not_timed(capsys):
    diary = []
    programs = {"ours": Program("ours", diary), "openvino": Program("openvino", diary)}
    programs["openvino"].prepared = {"seconds": 0.1, "difference": 0.04}
    turns = take_turns(programs, [SHORT], 1)
    assert turns[SHORT]["openvino"] == [None] and turns[SHORT]["ours"][0]
    assert "openvino: forward-1x16-float32 is 0.04 away from our answer\n" in capsys.readouterr().err
    assert take_turns(programs, [CASES["forward-1x16-bfloat16"]], 1)  # in which 0.04 is rounding
    assert ("openvino", "run", "forward-1x16-bfloat16", 5) in diary


def test_a_turn_without_an_answer_is_none_and_told(capsys):
    programs = {"ours": Program("ours", [], fails_at=[False, True])}
    assert take_turns(programs, [SHORT], 3)[SHORT]["ours"] == [Turn([0.1] * 5, 1), None, Turn([0.1] * 5, 1)]
    assert "ours: gone\n" in capsys.readouterr().err


@pytest.mark.parametrize(("parameters", "told"), [(12, ""), (13, "ours: 13 parameters, not 12\n")])
def test_a_network_of_another_size_is_left_out(parameters, told, tmp_path, monkeypatch, capsys):
    (tmp_path / "facts.json").write_text('{"parameters": 12}', "utf-8")
    fake = tmp_path / "python"
    first_line = json.dumps({"parameters": parameters})
    fake.write_text(f"#!/bin/sh\necho '{first_line}'\nexec sleep 60\n", "utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr(rounds, "python_of", lambda name: fake)
    with started(["ours"], tmp_path, "float32", 1) as programs:
        assert list(programs) == ([] if told else ["ours"])
        processes = [program.process for program in programs.values()]
    assert all(process.poll() is not None for process in processes)
    assert capsys.readouterr().err == told
