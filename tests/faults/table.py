"""Faults that the tests must notice: mistakes that were made once, here or elsewhere, or are easily made.

They stand in faults.txt, each with its description, its file, what is right there and what is wrong, and
the tests that must fail.
"""

from pathlib import Path
from typing import NamedTuple


class Fault(NamedTuple):
    """A change of one place in the code."""

    description: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]


def _read(block: str) -> Fault:
    description, file, right, wrong, *tests = block.splitlines()
    return Fault(description, file, right.removeprefix("- "), wrong.removeprefix("+ "), tuple(tests))


FAULTS = tuple(map(_read, Path(__file__).with_name("faults.txt").read_text("utf-8").split("\n\n")))
