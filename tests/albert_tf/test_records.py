"""Records in records: nested in code, flat everywhere else."""

import dataclasses

import pytest

from albert_tf.settings import flatten_record, replace_fields, unflatten_record


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
    assert flatten_record(record) == {"name": "a", "depth": 3, "width": 4, "size": 0.5}
    assert unflatten_record(Outer, flatten_record(record)) == record
    assert unflatten_record(Outer, {"name": "b", "other": 1, "width": 5}) == Outer("b", Inner(1, 5))


def test_changes_of_any_depth_are_checked_where_they_belong():
    record = Outer("a")
    assert replace_fields(record, depth=7, size=1.0) == Outer("a", Inner(7, 2), 1.0)
    assert replace_fields(record, inner=Inner(9, 9)) == Outer("a", Inner(9, 9))
    assert record == Outer("a")
    with pytest.raises(ValueError, match="depth"):
        replace_fields(record, depth=-1)
    with pytest.raises(TypeError, match="colour"):
        replace_fields(record, colour=1)
    with pytest.raises(TypeError, match="name"):
        unflatten_record(Outer, {})
