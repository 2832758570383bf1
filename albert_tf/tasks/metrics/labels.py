"""Metrics of predicted labels, numbers and tags, as fractions of 1.

The libraries that count are imported at the first use: who does not ask does not wait for them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.utils.errors import InputError

Labels = Sequence[str] | Sequence[int]
Numbers = Sequence[float]
Tags = Sequence[Sequence[str]]

# Of schemes that call an entity's last or only word otherwise.
_PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}
_OUTSIDE = "O"


def accuracy(right: Labels, predicted: Labels) -> float:
    """The share of right labels.

    >>> accuracy(["a", "b", "b", "b"], ["a", "a", "b", "b"])
    0.75
    """
    from sklearn.metrics import accuracy_score

    _check_same_number(right, predicted)
    return float(accuracy_score(right, predicted))


def f1(right: Labels, predicted: Labels, label: str | int) -> float:
    """The harmonic mean of precision and recall of one label; 0 where it is never right.

    >>> f1(["1", "1", "1", "0"], ["1", "0", "0", "0"], "1")
    0.5
    """
    from sklearn.metrics import f1_score

    _check_same_number(right, predicted)
    return float(f1_score(right, predicted, labels=[label], average="macro", zero_division=0))


def macro_f1(right: Labels, predicted: Labels) -> float:
    """The mean of `f1` over all labels that there are, however rare each is.

    >>> macro_f1(["1", "1", "1", "0"], ["1", "0", "0", "0"])
    0.5
    """
    from sklearn.metrics import f1_score

    _check_same_number(right, predicted)
    return float(f1_score(right, predicted, average="macro", zero_division=0))


def matthews_correlation(right: Labels, predicted: Labels) -> float:
    """Matthews' correlation coefficient, from -1 to 1; 0 where all labels are the same.

    >>> matthews_correlation([1, 1, 0, 0], [1, 0, 0, 0])
    0.5773502691896258
    """
    from sklearn.metrics import matthews_corrcoef

    _check_same_number(right, predicted)
    with warnings.catch_warnings():  # of a single label, for which there is the 0
        warnings.simplefilter("ignore", UserWarning)
        return float(matthews_corrcoef(right, predicted))


def pearson(right: Numbers, predicted: Numbers) -> float:
    """Pearson's correlation coefficient, from -1 to 1; 0 where all numbers are the same, as Matthews'.

    >>> round(pearson([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]), 4)
    0.982
    """
    from scipy.stats import pearsonr

    return _correlation(pearsonr, right, predicted)


def spearman(right: Numbers, predicted: Numbers) -> float:
    """Spearman's rank correlation, from -1 to 1; 0 where all numbers are the same.

    >>> round(spearman([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]), 4)
    1.0
    """
    from scipy.stats import spearmanr

    return _correlation(spearmanr, right, predicted)


def entity_scores(right: Tags, predicted: Tags) -> dict[str, float]:
    """Precision, recall and F1 of entities, which count where their words and their type are right.

    Args:
      right: the tags of each sentence: "O" is no entity; a type behind B-, I- and, where there are, E- or L-,
        S- or U- is a part of one, as the CoNLL shared tasks read them. A tag without any of these, such as a
        part of speech, is that of a single word.
      predicted: the same of the same words.
    Returns:
      `precision`, `recall` and `f1`.
    """
    from seqeval.metrics import f1_score, precision_score, recall_score

    _check_same_number(right, predicted)
    both = [[[known_tag(tag) for tag in sentence] for sentence in tags] for tags in (right, predicted)]
    functions = {"precision": precision_score, "recall": recall_score, "f1": f1_score}
    return {name: float(function(*both, zero_division=0)) for name, function in functions.items()}


def multi_label_scores(right: Tags, predicted: Tags) -> dict[str, float]:
    """`micro_f1`, `macro_f1` (0 for a label that is never right), and the share of equal sets as `accuracy`.

    >>> multi_label_scores([["a", "b"], ["b"], []], [["a"], ["b"], ["b"]])["micro_f1"]
    0.6666666666666666
    """
    from sklearn.metrics import f1_score
    from sklearn.preprocessing import MultiLabelBinarizer

    _check_same_number(right, predicted)
    binarizer = MultiLabelBinarizer().fit([*right, *predicted])
    if not len(binarizer.classes_):  # nothing to find, and nothing found
        return {"micro_f1": 1.0, "macro_f1": 1.0, "accuracy": 1.0}
    wanted, found = binarizer.transform(right), binarizer.transform(predicted)
    scores = {
        f"{average}_f1": float(f1_score(wanted, found, average=average, zero_division=0))
        for average in ("micro", "macro")
    }
    return {**scores, "accuracy": float((wanted == found).all(axis=1).mean())}


def known_tag(tag: str) -> str:
    """A tag in the spelling that seqeval knows: O, or B-, I-, E- or S- and the label."""
    prefix, dash, kind = tag.partition("-")
    if tag == _OUTSIDE:
        return tag
    return f"{_PREFIXES[prefix]}-{kind}" if dash and prefix in _PREFIXES else f"S-{tag}"


def entity_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """The entities of a sentence: label, first word, and the word after the last.

    Args:
      tags: of its words, read as `entity_scores` does: "O" is no entity; a label after B-, I-
        and, where there are, E- or L-, S- or U- is a part of one; a label alone is that of a single word.

    >>> entity_spans(["B-PER", "I-PER", "B-PER", "O", "I-LOC", "NOUN", "NOUN"])
    [('PER', 0, 2), ('PER', 2, 3), ('LOC', 4, 5), ('NOUN', 5, 6), ('NOUN', 6, 7)]
    """
    spans: list[tuple[str, int, int]] = []
    open_label = None  # of an entity that may go on
    for place, tag in enumerate(tags):
        part, _, label = known_tag(tag).partition("-")
        if part in ("I", "E") and label == open_label:
            spans[-1] = (label, spans[-1][1], place + 1)
        elif part != "O":
            spans.append((label, place, place + 1))
        open_label = label if part in ("B", "I") else None
    return spans


def _correlation(function: Callable[..., Any], right: Numbers, predicted: Numbers) -> float:
    _check_same_number(right, predicted)
    if len(right) < 2 or len(set(right)) == 1 or len(set(predicted)) == 1:
        return 0.0
    return float(function(right, predicted).statistic)


def _check_same_number(right: Sequence, predicted: Sequence) -> None:
    if len(right) != len(predicted) or len(right) == 0:
        raise InputError(f"{len(predicted)} predictions for {len(right)} examples: one for each is needed")
