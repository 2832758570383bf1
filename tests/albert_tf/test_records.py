"""Records in records: nested in code, flat everywhere else; and the checks of their fields."""

from __future__ import annotations

import dataclasses

import pytest

from albert_tf.errors import InputError
from albert_tf.settings import check_fields, flatten_record, replace_fields, setting, unflatten_record


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checked:
    rate: float = setting(above=0, remedy="name a rate")
    kind: str = setting("a", choices=("a", "b"))
    most: int | None = setting(None, at_least=1)
    is_big: bool = False
    inner: Inner = Inner()

    def __post_init__(self):
        check_fields(self)


def test_fields_are_checked_as_they_are_declared():
    assert (Checked(rate=1).kind, Checked.kind, Checked.most) == ("a", "a", None)
    with pytest.raises(TypeError, match="rate"):
        Checked()
    for changes, message in (
        ({"rate": 0.0}, "rate=0.0 must be above 0: name a rate"),
        ({"rate": None}, "rate=None "),
        ({"kind": "c"}, "kind='c' is none of a, b"),
        ({"kind": 5}, "kind=5 "),
        ({"most": 0}, "most=0 must be at least 1"),
        ({"most": True}, "most=True "),
        ({"is_big": 1}, "is_big=1 "),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            Checked(**{"rate": 0.5, **changes})
