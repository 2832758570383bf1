import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.examples import (
    TaggedRecord,
    TextRecord,
    label_ids,
    label_names,
    label_of,
    regression_labels,
    tag_names,
)


def labelled(*labels):
    return [TextRecord("f.csv", n + 2, str(n), "text", None, label) for n, label in enumerate(labels)]


def ids(records, labels):
    return label_ids([(label_of(record), record.where) for record in records], labels)


def test_labels_are_sorted_and_numbers_by_value():
    assert label_names(labelled("b", "a", "b")) == ("a", "b")
    assert label_names(labelled("10", "9", "-1", "9")) == ("-1", "9", "10")
    assert label_names(labelled("10", "9", "x")) == ("10", "9", "x")
    assert ids(labelled("b", "a", "b"), ("b", "a")) == [0, 1, 0]


def test_a_whole_number_is_one_label_however_it_is_spelled():
    """And what only looks like one, or has leading zeros, is as it was."""
    spelled = ("1", "1.0", "1.00", "-0.0", "0", "10.0", "-3.0")
    assert ids(labelled(*spelled), ("0", "1", "10", "-3")) == [1, 1, 1, 0, 0, 2, 3]
    assert label_names(labelled("2.0", "1", "10.0", "1.0")) == ("1", "2", "10")
    assert label_names(labelled("1.0", "yes")) == ("1", "yes")
    strings = ["007", "7.5.0", "1e5", "nan", "inf", "1.", "+1.0", "1_0.0", "01.0", "١.0", "1.50x"]
    assert [label_of(record) for record in labelled(*strings, "1.0 ")] == [*strings, "1.0 "]
    assert label_names(labelled("007", "7", "7.0")) == ("007", "7")


def test_a_missing_number_is_no_label():
    with pytest.raises(InputError, match=r"f\.csv: .*nan"):
        label_names(labelled("0", "1", "NaN"))


@pytest.mark.parametrize("labels", [("1", "2.5"), ("-.5", "1e-05"), tuple(map(str, range(2, 53)))])
def test_numbers_that_look_continuous_are_of_regression(labels):
    with pytest.raises(InputError, match=r"f\.csv: .*regression"):
        label_names(labelled(*labels))


def test_labels_that_are_not_continuous():
    for labels in (
        map(str, range(2, 52)),
        map(str, range(77)),
        map(str, range(1, 61)),
        (f"{number:03}" for number in range(99)),
        ("1.5", "1_0"),
    ):
        labels = set(labels)
        assert set(label_names(labelled(*labels))) == labels


def test_bad_labels():
    with pytest.raises(InputError, match=r"f\.csv: .*'a'"):
        label_names(labelled("a", "a"))
    for label in ("", None):
        with pytest.raises(InputError, match=r"f\.csv:3"):
            label_names(labelled("a", label))
    with pytest.raises(InputError, match=r"f\.csv:3: .*'c'.*'a', 'b'"):
        ids(labelled("a", "c"), ("a", "b"))


def test_scores():
    assert regression_labels(labelled("1", "-2.5", "1e3")) == [1, -2.5, 1000]
    for label in ("nan", "inf", "good", None, "1_000", "1e400", "١"):
        with pytest.raises(InputError, match=f"f.csv:3: .*{label}"):
            regression_labels(labelled("1", label))


def test_tags():
    sentence = TaggedRecord("f.txt", 7, ("a", "b", "c"), ("I-X", "O", "B-X"))
    assert tag_names([sentence]) == ("O", "B-X", "I-X")
    with pytest.raises(InputError, match=r"f\.txt:7"):
        tag_names([sentence, sentence._replace(tags=None)])
