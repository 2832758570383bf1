"""Figures against counts by hand, and against the formulas written out with NumPy."""

import numpy as np
import pytest

from albert_tf.tasks.metrics.labels import (
    accuracy,
    correlations,
    entity_scores,
    entity_spans,
    f1,
    matthews_correlation,
)

# Right and predicted: 3 true positives, 1 false negative, 2 false positives, 4 true negatives.
RIGHT = list("1111000000")
PREDICTED = list("1110110000")


def test_labels_by_hand():
    assert accuracy(RIGHT, PREDICTED) == 0.7
    assert f1(RIGHT, PREDICTED, "1") == pytest.approx(2 * 3 / (2 * 3 + 2 + 1))
    assert f1(list("aabbcc"), list("abbbca")) == pytest.approx((2 / 4 + 4 / 5 + 2 / 3) / 3)
    assert matthews_correlation(RIGHT, PREDICTED) == pytest.approx(
        (3 * 4 - 2 * 1) / np.sqrt((3 + 2) * (3 + 1) * (4 + 2) * (4 + 1))
    )
    assert f1(RIGHT, ["0"] * 10, "1") == matthews_correlation(["0"] * 3, ["0"] * 3) == 0


def test_correlations_by_their_formulas():
    right, predicted = [0.0, 1.5, 5.0, 2.0, 3.5], [0.25, 2.0, 3.0, 1.0, 4.0]
    centred = [np.array(values) - np.mean(values) for values in (right, predicted)]
    expected = (centred[0] @ centred[1]) / np.sqrt((centred[0] @ centred[0]) * (centred[1] @ centred[1]))
    found = correlations(right, predicted)
    assert found["pearson"] == pytest.approx(expected)
    # Ranks 1 2 5 3 4 and 1 3 4 2 5: 1 - 6 Σd² / (n (n² - 1)).
    assert found["spearman"] == pytest.approx(1 - 6 * (0 + 1 + 1 + 1 + 1) / (5 * 24))
    assert correlations(right, [10**x for x in right])["spearman"] == pytest.approx(1)
    assert correlations(right, [-x for x in right])["pearson"] == pytest.approx(-1)


def test_what_does_not_vary_has_no_correlation():
    for pair in (([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]), ([2.0, 2.0], [1.0, 3.0]), ([2.0], [2.0])):
        assert correlations(*pair) == {"pearson": 0, "spearman": 0}


def entities(right, predicted):
    scores = entity_scores([line.split() for line in right], [line.split() for line in predicted])
    return tuple(round(scores[name], 4) for name in ("precision", "recall", "f1"))


@pytest.mark.parametrize(
    ("right", "predicted", "expected"),
    [
        (["B-PER I-PER O B-LOC"], ["B-PER I-PER O B-LOC"], (1, 1, 1)),
        # A border too early is a wrong entity, and entities may begin with I, as in the shared task of 2003.
        (["B-PER I-PER O I-LOC"], ["B-PER O O B-LOC"], (0.5, 0.5, 0.5)),
        # An entity ends with its sentence.
        (["O I-LOC", "I-LOC"], ["O B-LOC", "O"], (1, 0.5, 0.6667)),
        (["O O"], ["O O"], (0, 0, 0)),
        # Other schemes.
        (["U-PER O B-LOC I-LOC L-LOC"], ["B-PER O B-LOC I-LOC I-LOC"], (1, 1, 1)),
        (["S-PER B-LOC E-LOC"], ["B-PER B-LOC I-LOC"], (1, 1, 1)),
        # Types with a dash.
        (["B-ORG-sub B-ORG-main"], ["B-ORG-sub B-ORG-sub"], (0.5, 0.5, 0.5)),
        # Parts of speech are of single words.
        (["DET NOUN NOUN VERB"], ["DET NOUN NOUN NOUN"], (0.75, 0.75, 0.75)),
        (["I NUM-X"], ["I NUM-Y"], (0.5, 0.5, 0.5)),
    ],
)
def test_entities_by_hand(right, predicted, expected):
    assert entities(right, predicted) == expected


@pytest.mark.parametrize("parts", ["BI", "BIES"])
def test_spans_are_the_entities_that_are_counted(parts):
    """Any tags, also such as no rule allows: sentences agree where, and only where, their spans do."""
    tags = ["O", *(f"{part}-{label}" for part in parts for label in ("A", "B"))]
    random = np.random.default_rng(0)
    for _ in range(100):
        one, other = ([str(tag) for tag in random.choice(tags, 3)] for _ in range(2))
        spans = [set(entity_spans(sentence)) for sentence in (one, other)]
        expected = len(spans[0] & spans[1]) / max(len(spans[1]), 1)
        assert entity_scores([one], [other])["precision"] == pytest.approx(expected)


def test_spans_of_other_spellings():
    assert entity_spans(["B-A", "L-A", "U-A", "L-A"]) == [("A", 0, 2), ("A", 2, 3), ("A", 3, 4)]
    assert [label for label, _, _ in entity_spans(["NN", "NN", "X-ray", "BI-A"])] == [
        "NN",
        "NN",
        "X-ray",
        "BI-A",
    ]
