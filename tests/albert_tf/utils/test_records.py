"""Records in records: nested in code, flat everywhere else."""

import dataclasses

import pytest

from albert_tf.utils.records import changed, flat, from_flat


@dataclasses.dataclass(frozen=True)
class Inner:
    depth: int = 1
    width: int = 2

    def __post_init__(self):
        if self.depth < 0:
            raise ValueError("depth")


@dataclasses.dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner = Inner()
    size: float = 0.5


def test_there_and_back():
    record = Outer("a", Inner(3, 4))
    assert flat(record) == {"name": "a", "depth": 3, "width": 4, "size": 0.5}
    assert from_flat(Outer, flat(record)) == record
    assert from_flat(Outer, {"name": "b", "other": 1, "width": 5}) == Outer("b", Inner(1, 5))


def test_changes_of_any_depth_are_checked_where_they_belong():
    record = Outer("a")
    assert changed(record, depth=7, size=1.0) == Outer("a", Inner(7, 2), 1.0)
    assert changed(record, inner=Inner(9, 9)) == Outer("a", Inner(9, 9))
    assert record == Outer("a")
    with pytest.raises(ValueError, match="depth"):
        changed(record, depth=-1)
    with pytest.raises(TypeError, match="colour"):
        changed(record, colour=1)
    with pytest.raises(TypeError, match="name"):
        from_flat(Outer, {})
