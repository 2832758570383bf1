"""Metrics of predicted labels, numbers and tags, as fractions of 1.

The libraries that count are imported at the first use: who does not ask does not wait for them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

Labels = Sequence[Any] | np.ndarray
Numbers = Sequence[float]
Tags = Sequence[Sequence[str]]

# Of schemes that call an entity's last or only word otherwise.
_PREFIXES = {"B": "B", "I": "I", "E": "E", "S": "S", "L": "E", "U": "S"}


def accuracy(right: Labels, predicted: Labels) -> float:
    """The share of right labels."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(right, predicted))


def f1(right: Labels, predicted: Labels, label: str | int | None = None) -> float:
    """The harmonic mean of precision and recall of one label; 0 where it is never right.

    Without a label it is the mean over all that there are, however rare each is.
    """
    from sklearn.metrics import f1_score

    labels = None if label is None else [label]
    return float(f1_score(right, predicted, labels=labels, average="macro", zero_division=0))


def matthews_correlation(right: Labels, predicted: Labels) -> float:
    """Matthews' correlation coefficient, from -1 to 1; 0 where all labels are the same."""
    from sklearn.metrics import matthews_corrcoef

    with warnings.catch_warnings():  # of a single label, for which there is the 0
        warnings.simplefilter("ignore", UserWarning)
        return float(matthews_corrcoef(right, predicted))


def correlations(right: Numbers, predicted: Numbers) -> dict[str, float]:
    """`pearson`, and `spearman` of ranks, from -1 to 1; 0 where all numbers are the same, as Matthews'."""
    from scipy.stats import pearsonr, spearmanr

    if len(set(right)) == 1 or len(set(predicted)) == 1:
        return {"pearson": 0.0, "spearman": 0.0}
    pearson, spearman = (float(of(right, predicted).statistic) for of in (pearsonr, spearmanr))
    return {"pearson": pearson, "spearman": spearman}


def multi_label_scores(right: Tags, predicted: Tags) -> dict[str, float]:
    """`micro_f1`, `macro_f1` (0 for a label that is never right), and `accuracy`, the share of equal sets."""
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.preprocessing import MultiLabelBinarizer

    binarizer = MultiLabelBinarizer().fit([*right, *predicted])
    if not len(binarizer.classes_):  # nothing to find, and nothing found
        return {"micro_f1": 1.0, "macro_f1": 1.0, "accuracy": 1.0}
    both = binarizer.transform(right), binarizer.transform(predicted)
    return {
        "micro_f1": float(f1_score(*both, average="micro", zero_division=0)),
        "macro_f1": float(f1_score(*both, average="macro", zero_division=0)),
        "accuracy": float(accuracy_score(*both)),
    }


def entity_scores(right: Tags, predicted: Tags) -> dict[str, float]:
    """`precision`, `recall` and `f1` of entities, which count where their words and their type are right.

    Tags are those of each sentence, as the CoNLL shared tasks write them: "O" is no entity; a type after B-,
    I- and, where there are, E- or L-, S- or U- is a part of one. A tag without any of these, such as a part
    of speech, is that of a single word.
    """
    from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

    both = [[known_tags(tags) for tags in sentences] for sentences in (right, predicted)]
    found = precision_recall_fscore_support(*both, average="micro", zero_division=0)
    return dict(zip(("precision", "recall", "f1"), map(float, found[:3]), strict=True))


def entity_spans(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Entities of a sentence, read as `entity_scores` does: label, first word, the one after the last.

    >>> entity_spans(["B-PER", "I-PER", "B-PER", "O", "I-LOC", "NOUN", "NOUN"])
    [('PER', 0, 2), ('PER', 2, 3), ('LOC', 4, 5), ('NOUN', 5, 6), ('NOUN', 6, 7)]
    """
    from seqeval.metrics.sequence_labeling import get_entities

    return [(label, first, last + 1) for label, first, last in get_entities(known_tags(tags))]


def known_tags(tags: Sequence[str]) -> list[str]:
    """Tags as seqeval knows them: O, or B-, I-, E- or S- and the label."""
    known = []
    for tag in tags:
        prefix, dash, label = tag.partition("-")
        is_part = bool(dash) and prefix in _PREFIXES
        known.append(tag if tag == "O" else f"{_PREFIXES[prefix]}-{label}" if is_part else f"S-{tag}")
    return known
