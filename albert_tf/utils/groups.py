"""Items in groups of about a size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def grouped(items: Iterable[T], size_of: Callable[[T], int], size: int) -> Iterator[list[T]]:
    """Items in lists, each of which ends where the sum of its items' sizes reaches `size`, or with the last.

    >>> list(grouped(["a", "bcd", "e", "f"], len, 3))
    [['a', 'bcd'], ['e', 'f']]
    """
    group, sum_of_sizes = list[T](), 0
    for item in items:
        group.append(item)
        sum_of_sizes += size_of(item)
        if sum_of_sizes >= size:
            yield group
            group, sum_of_sizes = [], 0
    if group:
        yield group
