"""Tests of benchmarks/gpu/cases.py."""

import json
import time

import numpy as np
import pytest

from benchmarks.gpu.cases import FORWARD, PRODUCT, UPDATE, Case, cases, print_lines, random_batch

SMALL = {case.kind: case for case in cases(small=True) if case.compiled}


def test_multiplications_are_counted_by_hand():
    forward = SMALL[FORWARD]  # two layers of 64, an inner one of 256, embeddings of 128; 2 rows of 32 tokens
    projections = 4 * 64 * 64 + 2 * 64 * 256
    attention = 2 * 32 * 64  # scores and their products with the values, a token
    assert forward.flops == 2 * 64 * (2 * (projections + attention) + 128 * 64)
    assert SMALL[PRODUCT].flops == 2 * 256**3
    update = SMALL[UPDATE]
    tokens, predicted = 4 * 32, 4 * 5
    network = 2 * tokens * (2 * (projections + attention) + 128 * 64)
    assert update.flops == 3 * (network + 2 * predicted * 128 * (64 + 500))


def test_a_batch_has_the_shapes_of_pretraining():
    batch = random_batch(Case(UPDATE, SMALL[UPDATE].config, batch=3, length=40, compiled=True))
    assert batch["input_word_ids"].shape == (3, 40)
    assert batch["masked_lm_positions"].shape == batch["masked_lm_ids"].shape == (3, 6)
    assert (np.diff(batch["masked_lm_positions"]) >= 0).all()


@pytest.mark.parametrize("late", [False, True])
def test_a_line_a_case_whatever_becomes_of_it(capsys, late):
    def prepare(case):
        if case.kind == FORWARD:
            raise MemoryError("no memory is left\nand more about it")
        return lambda: time.sleep(0.1)

    print_lines("a", list(SMALL.values()), prepare, lambda: 7, time.time() + (-1 if late else 60))
    lines = {line["kind"]: line for line in map(json.loads, capsys.readouterr().out.splitlines())}
    assert lines.keys() == SMALL.keys()
    if late:
        assert all("left_out" in line and "milliseconds" not in line for line in lines.values())
    else:
        assert lines[FORWARD]["error"] == "MemoryError: no memory is left"
        assert 100 <= lines[UPDATE]["milliseconds"] < 200
        assert lines[UPDATE]["peak_bytes"] == 7
