"""Cases, inputs and sentences, and that every peer has its environment and its file."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from benchmarks.peers import rounds
from benchmarks.peers.cases import CASES, PEERS, read_sentences
from benchmarks.peers.matmul_shapes import case_flops
from benchmarks.peers.results import Turn, format_case, format_case_header, time_ratio
from benchmarks.peers.rounds import start_programs, take_turns
from benchmarks.peers.worker_process import WorkerError
from benchmarks.random_data import random_batch, random_inputs

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "benchmarks/peers"


def test_inputs_have_no_padding_and_are_the_same_each_time():
    case = CASES["update-8x128-float32"]
    shape = case.batch, case.length, case.predictions
    batch = random_batch(*shape, vocab_size=100)
    assert {name: array.shape for name, array in batch.items()} == {
        **dict.fromkeys(["input_word_ids", "input_mask", "input_type_ids"], (8, 128)),
        **dict.fromkeys(["masked_lm_positions", "masked_lm_ids", "masked_lm_weights"], (8, 20)),
        "sentence_order_labels": (8,),
    }
    assert batch["input_mask"].all() and not batch["input_type_ids"].any()
    assert batch["input_word_ids"].min() >= 5 and batch["input_word_ids"].max() < 100
    for row in batch["masked_lm_positions"]:
        assert len(set(row)) == 20 and sorted(row) == row.tolist() and row[0] >= 0 and row[-1] < 128
    for name, array in random_batch(*shape, vocab_size=100).items():
        np.testing.assert_array_equal(array, batch[name])
    np.testing.assert_array_equal(random_inputs(8, 128, 100)["input_word_ids"], batch["input_word_ids"])


def test_sentences_of_both_forms(tmp_path):
    table, lines = tmp_path / "dev.tsv", tmp_path / "text.txt"
    table.write_text("sentence\tlabel\nit 's \"good .\t1\nbad .\t0\n", encoding="utf-8")
    lines.write_text("One.\n\n  Two. \nThree.\n", encoding="utf-8")
    assert read_sentences(table, 9) == ["it 's \"good .", "bad ."]
    assert read_sentences(lines, 2) == ["One.", "Two."]


def test_every_peer_has_a_file_and_an_environment_that_make_creates():
    programs = {path.stem for path in (FOLDER / "programs").glob("*.py")}
    assert {peer.module for peer in PEERS.values()} == programs
    lists = {path.stem.removeprefix("requirements-") for path in FOLDER.glob("requirements-*.txt")}
    (made,) = re.findall(r"^PEERS *:= (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {peer.environment for peer in PEERS.values()} - {None} == lists == set(made.split())


# Products are counted as by hand.

BASE = dataclasses.asdict(albert_tf.PRESETS["albert_base_v2"])


def test_a_forward_pass_is_two_operations_a_weight_and_token_and_the_attention():
    tokens, layers, hidden, inner = 8 * 128, 12, 768, 3072
    weights = 4 * hidden**2 + 2 * hidden * inner
    attention = 2 * tokens * 128 * hidden  # scores and context: S products of D numbers a head and token
    others = tokens * 128 * hidden + 8 * hidden**2  # the projection of embeddings, the pooler
    expected = 2 * (layers * (tokens * weights + attention) + others)
    assert case_flops(BASE, CASES["forward-8x128-float32"]) == expected


def test_an_update_has_the_heads_and_twice_as_much_behind():
    forward = case_flops(BASE, CASES["forward-8x128-float32"])
    heads = 2 * (8 * 20 * (768 * 128 + 128 * 30000) + 8 * 768 * 2)
    assert case_flops(BASE, CASES["update-8x128-bfloat16"]) == 3 * (forward + heads)


# Ratios compare turns of one round; the table has times and ratios.

FORWARD, UPDATE, TEXT = (
    CASES[name] for name in ("forward-8x128-float32", "update-8x128-float32", "text-32x128-float32")
)


def turns(*values, peak=0):
    return [None if value is None else Turn([value], peak) for value in values]


def test_a_ratio_is_the_median_of_those_of_the_rounds():
    # A machine that slows down: 2, 3 and 2.5 times, though 10 / 2 of the medians is 5.
    rounds = {"ours": turns(1, 2, 40), "openvino": turns(2, 6, 100)}
    assert time_ratio(rounds, "openvino") == 2.5
    assert time_ratio(rounds, "ours") == 1
    rounds = {"ours": turns(1, 10, 2), "openvino": turns(3, 10, 20)}
    assert time_ratio(rounds, "openvino") == 3
    rounds = {"ours": turns(1, None, 4), "openvino": turns(2, 100, None)}
    assert time_ratio(rounds, "openvino") == 2
    assert time_ratio({"ours": turns(None), "openvino": turns(1)}, "openvino") is None


def test_the_table():
    measured = {
        FORWARD: {"ours": turns(0.46123), "matmul": turns(0.4), "openvino": turns(0.23)},
        UPDATE: {"ours": turns(1.835, peak=2_510_000_000), "model_garden": turns(3.67, peak=3_500_000_000)},
        TEXT: {"ours": turns(8.0), "model_garden": turns(None), "openvino": turns(8.4)},
    }
    peers = ["ours", "matmul", "model_garden", "openvino"]
    lines = [format_case(case, rounds, peers, 80 * 10**9, 256) for case, rounds in measured.items()]
    assert [*format_case_header(peers).splitlines(), *lines] == [
        "| case | ours | MatMul of the same shapes | Model Garden | OpenVINO |",
        "|---|---|---|---|---|",
        "| forward-8x128-float32 | 461 ms | 0.87, 200 GFLOP/s | – | 0.50 |",
        "| update-8x128-float32 | 1835 ms, 2.5 GB | – | 2.00, 3.5 GB |  |",
        "| text-32x128-float32 | 32.0 a second |  | – | 1.05 |",
    ]


# Programs take turns, and a program that fails is left out with a line that says so.

SHORT, LONG = CASES["forward-1x16-float32"], CASES["forward-8x512-float32"]


class FakeProcess:
    """Records its requests; its responses are fixed."""

    def __init__(self, name, diary, prepared=None, fails_at=()):
        self.name, self.diary, self.fails_at = name, diary, list(fails_at)
        self.prepared = prepared or {"seconds": 0.1, "difference": 1e-6}

    def request(self, request):
        self.diary.append((self.name, request["do"], request["case"], request.get("times")))
        if request["do"] == "prepare":
            return self.prepared
        if self.fails_at and self.fails_at.pop(0):
            raise WorkerError(f"{self.name}: gone")
        return {"seconds": [0.1] * request["times"], "peak": 1}


def test_all_take_turns_case_by_case_in_every_round():
    diary = []
    programs = {name: FakeProcess(name, diary) for name in ("ours", "keras_hub", "openvino")}
    programs["keras_hub"].prepared = {"seconds": 7.0, "difference": None}
    programs["openvino"].prepared = {"seconds": 0.001, "difference": 0.0}
    turns = take_turns(programs, [SHORT, LONG], 2)
    calls = {"ours": 5, "keras_hub": 1, "openvino": 20}  # half a second, at least once, at most 20 times
    a_round = [(name, "run", case.name, calls[name]) for case in (SHORT, LONG) for name in programs]
    assert [entry for entry in diary if entry[1] == "run"] == 2 * a_round
    assert turns[LONG]["ours"] == [Turn([0.1] * 5, 1)] * 2


def test_another_answer_than_ours_is_not_timed(capsys):
    diary = []
    programs = {"ours": FakeProcess("ours", diary), "openvino": FakeProcess("openvino", diary)}
    programs["openvino"].prepared = {"seconds": 0.1, "difference": 0.04}
    turns = take_turns(programs, [SHORT], 1)
    assert turns[SHORT]["openvino"] == [None] and turns[SHORT]["ours"][0]
    assert "openvino: forward-1x16-float32 is 0.04 away from our answer\n" in capsys.readouterr().err
    assert take_turns(programs, [CASES["forward-1x16-bfloat16"]], 1)  # in which 0.04 is rounding
    assert ("openvino", "run", "forward-1x16-bfloat16", 5) in diary


def test_a_turn_without_an_answer_is_none_and_told(capsys):
    programs = {"ours": FakeProcess("ours", [], fails_at=[False, True])}
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
    with start_programs(["ours"], tmp_path, "float32", 1) as programs:
        assert list(programs) == ([] if told else ["ours"])
        processes = [program.process for program in programs.values()]
    assert all(process.poll() is not None for process in processes)
    assert capsys.readouterr().err == told
