"""Tables in Markdown, which grow on the standard output while a benchmark measures."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence


def format_row(cells: Iterable[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(cells)} |"


def format_header(titles: Sequence[str]) -> str:
    """The first two lines of a table."""
    return f"{format_row(titles)}\n{'|---' * len(titles)}|"


def print_header(*titles: str) -> None:
    """Prints the first two lines of a table."""
    print(format_header(titles), flush=True)


def print_row(*cells: str) -> None:
    """Prints one line of a table, without waiting for the next one."""
    print(format_row(cells), flush=True)


def format_range(
    values: Sequence[float],
    spec: str = ".3f",
    average: Callable[[Sequence[float]], float] = statistics.median,
) -> str:
    """Several measurements in one cell: "median (min to max)".

    Args:
      values: the measurements.
      spec: format of a number.
      average: function to take in place of the median.
    """
    return f"{average(values):{spec}} ({min(values):{spec}} to {max(values):{spec}})"
