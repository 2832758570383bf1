import pytest

from albert_tf.data.tasks.records import (
    TaggedRecord,
    TextRecord,
    label_ids,
    label_names,
    scores,
    tag_names,
)
from albert_tf.errors import InputError


def labelled(*labels):
    return [TextRecord("f.csv", n + 2, str(n), "text", None, label) for n, label in enumerate(labels)]


def test_labels_are_sorted_and_numbers_by_value():
    assert label_names(labelled("b", "a", "b")) == ("a", "b")
    assert label_names(labelled("10", "9", "-1", "9")) == ("-1", "9", "10")
    assert label_names(labelled("10", "9", "x")) == ("10", "9", "x")
    assert label_ids(labelled("b", "a", "b"), ("b", "a")) == [0, 1, 0]


def test_bad_labels():
    with pytest.raises(InputError, match=r"f\.csv: the only label is 'a'"):
        label_names(labelled("a", "a"))
    for label in ("", None):
        with pytest.raises(InputError, match=r"f\.csv:3: the row has no label"):
            label_names(labelled("a", label))
    with pytest.raises(InputError, match=r"f\.csv:3: label 'c' is none of 'a', 'b'"):
        label_ids(labelled("a", "c"), ("a", "b"))


def test_scores():
    assert scores(labelled("1", "-2.5", "1e3")) == [1, -2.5, 1000]
    for label in ("nan", "inf", "good", "1,5"):
        with pytest.raises(InputError, match=f"f.csv:3: label '{label}' is not a finite number"):
            scores(labelled("1", label))


def test_tags():
    sentence = TaggedRecord("f.txt", 7, ("a", "b", "c"), ("I-X", "O", "B-X"))
    assert tag_names([sentence]) == ("O", "B-X", "I-X")
    with pytest.raises(InputError, match=r"f\.txt:7: words without tags"):
        tag_names([sentence, sentence._replace(tags=None)])
