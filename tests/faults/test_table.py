"""The table of faults fits the code, so that the command, which runs by hand, can put each in."""

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.table import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.description)
def test_its_place_and_its_tests_are_there(fault: Fault):
    assert (ROOT / fault.file).read_text("utf-8").count(fault.right) == 1
    assert fault.wrong != fault.right
    assert all((ROOT / path).exists() for path in fault.tests)


def test_each_is_there_once():
    assert max(Counter(fault.description for fault in FAULTS).values()) == 1
