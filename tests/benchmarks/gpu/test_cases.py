"""Every case has a line, whatever becomes of it."""

import json
import time

import pytest

from benchmarks.gpu.cases import PRODUCT, cases, print_lines
from benchmarks.peers.compared import FORWARD, UPDATE

SMALL = {case.kind: case for case in cases(small=True) if case.compiled}


def test_operations():
    assert SMALL[PRODUCT].flops == 2 * 256**3
    assert 0 < SMALL[FORWARD].flops < SMALL[UPDATE].flops


@pytest.mark.parametrize("late", [False, True])
def test_a_line_a_case(capsys, late):
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
