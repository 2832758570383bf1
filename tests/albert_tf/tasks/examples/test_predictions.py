import numpy as np
import pytest
from seqeval.metrics.sequence_labeling import get_entities

from albert_tf.tasks.examples.predictions import characters
from albert_tf.tasks.metrics.labels import entity_spans


@pytest.mark.parametrize("parts", ["BI", "BIES"])
def test_entities_are_those_that_are_counted(parts):
    """Any tags, also such as no rule allows."""
    tags = ["O", *(f"{part}-{label}" for part in parts for label in ("A", "B"))]
    random = np.random.default_rng(0)
    for _ in range(300):
        sentence = [str(tag) for tag in random.choice(tags, random.integers(0, 8))]
        expected = [(label, first, last + 1) for label, first, last in get_entities(sentence)]
        assert entity_spans(sentence) == expected


def test_other_spellings():
    assert entity_spans(["B-A", "L-A", "U-A", "L-A"]) == [("A", 0, 2), ("A", 2, 3), ("A", 3, 4)]
    assert entity_spans(["NN", "NN", "X-ray", "BI-A"]) == [
        ("NN", 0, 1),
        ("NN", 1, 2),
        ("X-ray", 2, 3),
        ("BI-A", 3, 4),
    ]


def test_characters():
    text = "aä🐝\u2003z\ud800b"
    places = np.cumsum([0, *(len(x.encode("utf-8", "replace")) for x in text)])
    assert characters(text, *places) == list(range(len(text) + 1))
