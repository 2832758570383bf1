"""Figures against counts by hand, and against the formulas written out with NumPy."""

import itertools

import numpy as np
import pytest
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities

from albert_tf.tasks.examples import TaggedRecord
from albert_tf.tasks.metrics import (
    BARE,
    PREFIXES,
    RUNS,
    SINGLE_WORDS,
    SUFFIXES,
    accuracy,
    correlations,
    entity_scores,
    entity_spans,
    f1,
    find_scheme,
    matthews_correlation,
)
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Prediction

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


def scored(right, predicted):
    """Scores in the scheme of all tags there are."""
    return entity_scores(right, predicted, find_scheme(itertools.chain(*right, *predicted)))


def spans_of(tags):
    """Entities in the scheme of a sentence's own tags."""
    return entity_spans(tags, find_scheme(tags))


def entities(right, predicted):
    scores = scored([line.split() for line in right], [line.split() for line in predicted])
    return tuple(round(scores[name], 4) for name in ("precision", "recall", "f1"))


@pytest.mark.parametrize(
    ("right", "predicted", "expected"),
    [
        (["B-PER I-PER O B-LOC"], ["B-PER I-PER O B-LOC"], (1, 1, 1)),
        # A border too early is a wrong entity, and entities may begin with I, as in the shared task of 2003.
        (["B-PER I-PER O I-LOC"], ["B-PER O O B-LOC"], (0.5, 0.5, 0.5)),
        # An entity ends with its sentence.
        (["O I-LOC", "I-LOC"], ["O B-LOC", "O"], (1, 0.5, 0.6667)),
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
        found = [entity_spans(sentence, PREFIXES) for sentence in (one, other)]
        assert found == [[(x, a, b + 1) for x, a, b in get_entities(tags)] for tags in (one, other)]
        spans = list(map(set, found))
        expected = len(spans[0] & spans[1]) / max(len(spans[1]), 1)
        assert scored([one], [other])["precision"] == pytest.approx(expected)


def undefined(right, predicted):
    return {name for name, value in scored([right.split()], [predicted.split()]).items() if np.isnan(value)}


def test_without_entities_there_is_no_f1():
    assert undefined("O O", "O O") == {"precision", "recall", "f1"}
    assert undefined("o", "b-per") == {"recall", "f1"}
    assert undefined("B-PER", "O") == undefined("B-PER", "I-LOC") == set()


def respelled(change):
    """Sentences of IOB tags, right and predicted, and the same in another spelling."""
    random = np.random.default_rng(0)
    tags = ["O", "B-A", "I-A", "B-B-c", "I-B-c"]
    sides = [[[str(x) for x in random.choice(tags, 6)] for _ in range(30)] for _ in range(2)]
    return sides, [[list(map(change, sentence)) for sentence in sentences] for sentences in sides]


def swapped(tag, dash):
    part, _, label = tag.partition("-")
    return f"{label}{dash}{part}" if label else tag


SPELLINGS = {
    "lower": lambda tag: tag[:1].lower() + tag[1:],
    "all lower": str.lower,
    "underscore": lambda tag: tag.replace("-", "_", 1),
    "colon": lambda tag: tag.replace("-", ":", 1),
    "suffix": lambda tag: swapped(tag, "-"),
    "lower suffix": lambda tag: swapped(tag, "_").lower(),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_any_spelling_scores_as_iob_does(name):
    plain, other = respelled(SPELLINGS[name])
    expected = [precision_score(*plain), recall_score(*plain), f1_score(*plain)]
    found = scored(*other)
    assert [found[key] for key in ("precision", "recall", "f1")] == pytest.approx(expected)
    scheme = find_scheme(itertools.chain(*other[0]))
    for one, two in zip(plain[0], other[0], strict=True):
        spans = [(label.lower(), *place) for label, *place in entity_spans(two, scheme)]
        assert spans == [(label.lower(), first, last + 1) for label, first, last in get_entities(one)]


def test_suffixes_and_parts_alone_are_those_of_seqeval():
    tags = ["PER-B", "PER-I", "O", "LOC-I", "LOC-I", "MISC-S", "ORG-B", "ORG-E"]
    assert spans_of(tags) == [(label, a, b + 1) for label, a, b in get_entities(tags, suffix=True)]
    tags = ["B", "I", "O", "I", "I", "B", "B", "O"]
    expected = [(label, a, b + 1) for label, a, b in get_entities(tags)]
    assert spans_of(tags) == expected == [("_", 0, 2), ("_", 3, 5), ("_", 5, 6), ("_", 6, 7)]
    assert spans_of(list("boi")) == [("_", 0, 1), ("_", 2, 3)]
    assert spans_of(list("BMESBE")) == [("_", 0, 3), ("_", 3, 4), ("_", 4, 6)]  # of Chinese words


def test_types_alone_beside_an_o_are_runs():
    tags = ["PER", "PER", "O", "LOC", "PER", "person-actor", "person-actor"]
    expected = [("PER", 0, 2), ("LOC", 3, 4), ("PER", 4, 5), ("person-actor", 5, 7)]
    assert spans_of(tags) == expected
    found = scored([tags], [["PER", "O", "O", "LOC", "PER", "person-actor", "person-actor"]])
    assert found == pytest.approx({"precision": 0.75, "recall": 0.75, "f1": 0.75})


@pytest.mark.parametrize(
    ("tags", "name"),
    [
        ("NOUN VERB X-ray", SINGLE_WORDS),
        ("S-PRO S V A-PRO", SINGLE_WORDS),  # of parts of speech: substantives and pronouns
        ("NN B-NN", SINGLE_WORDS),
        ("O vitamin-B gene", RUNS),
        ("O e-mail", RUNS),
        ("O S-PER", PREFIXES),
        ("O B-PER I-PER B-LOC X", PREFIXES),
        ("O B-I", PREFIXES),
        ("O B- I-", PREFIXES),
        ("O B I L U", BARE),
        ("O", RUNS),
        ("O PER-B PER-I", SUFFIXES),
    ],
)
def test_the_scheme_is_that_of_all_tags(tags, name):
    assert find_scheme(tags.split()) == name


@pytest.mark.parametrize(
    ("labels", "right", "predicted"),
    [("O B I E S", "O S S", "O S O"), ("o b-per i-per s-per", "o s-per s-per", "o s-per o")],
)
def test_a_set_that_lacks_prefixes_is_scored_by_the_labels_of_the_run(labels, right, predicted):
    """Two entities, of which one is found; by the tags that are there they would be one of two words."""
    sides = [right.split()], [predicted.split()]
    expected = [
        score(*(np.char.upper(x).tolist() for x in sides)) for score in (precision_score, recall_score)
    ]
    assert expected == [1, 0.5]
    records = [TaggedRecord("f", 1, ("a", "b", "c"), tuple(*sides[0]))]
    predictions = [Prediction(tuple(*sides[1]), np.ones(3, np.float32))]
    task = Tagging({"labels": labels.split()})
    metrics = task.metrics(records, predictions)
    assert [metrics["precision"], metrics["recall"]] == expected
    tables = {table.name: table.rows for table in task.report(records, predictions).tables}
    assert tables["labels"][0][1:] == (*expected, pytest.approx(2 / 3), 2)


def test_spans_of_other_spellings():
    assert spans_of(["B-A", "L-A", "U-A", "L-A"]) == [("A", 0, 2), ("A", 2, 3), ("A", 3, 4)]
    assert [label for label, _, _ in spans_of(["NN", "NN", "X-ray", "BI-A"])] == ["NN", "NN", "X-ray", "BI-A"]
