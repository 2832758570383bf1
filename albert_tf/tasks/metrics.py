"""The official metrics of tasks, calibration, and precision-recall curves."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.report import CALIBRATION, LINES, ReportTable

LabelSequence = Sequence[Any] | np.ndarray
Numbers = Sequence[float]
Tags = Sequence[Sequence[str]]

# Parts of entities (begin, inside, end, single), by the letters of IOB, IOBES, BILOU, BMES and BMEWO.
_PARTS = {**{part: part for part in "BIES"}, "L": "E", "U": "S", "M": "I", "W": "S"}
_PART, _LABEL, _DASH = rf"(?P<part>[{''.join(_PARTS)}])", "(?P<label>.+)", r"(?:[^\w\s]|_)"


class TagScheme(NamedTuple):
    """A scheme by which tags mark entities. "O" marks no entity; case does not matter."""

    name: str
    tag: re.Pattern[str] | None = None  # pattern of tags with a part and a label
    other: str = "S"  # part of all other tags; the tag itself is the label

    def read_tag(self, tag: str) -> str:
        """The tag in IOBES: O, or B-, I-, E- or S- and the label; an empty label becomes "_"."""
        if tag.upper() == "O":
            return "O"
        match = self.tag and self.tag.fullmatch(tag)
        if not match:
            return f"{self.other}-{tag or '_'}"
        return f"{_PARTS[match['part'].upper()]}-{match['label'] or '_'}"


def _tag_scheme(name: str, expression: str) -> TagScheme:
    return TagScheme(name, re.compile(expression, re.IGNORECASE | re.DOTALL))


BARE = _tag_scheme("parts alone (B, I)", f"{_PART}(?P<label>)")
PREFIXES = _tag_scheme("parts before types (B-PER, I-PER)", f"{_PART}{_DASH}(?P<label>.*)")
SUFFIXES = _tag_scheme("parts after types (PER-B, PER-I)", f"{_LABEL}{_DASH}{_PART}")
RUNS = TagScheme("types alone, equal ones in a row are one entity (PER)", other="I")
SINGLE_WORDS = TagScheme("none")


def find_scheme(tags: Iterable[str]) -> TagScheme:
    """The scheme of a set of tags; SINGLE_WORDS if they mark no entities, such as parts of speech.

    Tags have a scheme if most of them have its pattern, and B or I is among their parts.

    >>> find_scheme(["O", "b_per", "i_per"]).name
    'parts before types (B-PER, I-PER)'
    """
    tags = set(tags)
    names = {tag for tag in tags if tag.upper() != "O"}
    for least, scheme in itertools.product([len(names), len(names) // 2 + 1], (BARE, PREFIXES, SUFFIXES)):
        assert scheme.tag is not None
        parts = "".join(match["part"] for name in names if (match := scheme.tag.fullmatch(name)))
        has_begin = not {*"BI"}.isdisjoint(parts.upper())
        has_singles = scheme != BARE and len(parts) == len(names) and parts.isupper()  # S-PER alone
        if len(parts) >= least and (has_begin or has_singles):
            return scheme
    return SINGLE_WORDS if names == tags else RUNS


def accuracy(y_true: LabelSequence, y_pred: LabelSequence) -> float:
    """The share of predictions that equal the label."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(y_true, y_pred))


def f1(y_true: LabelSequence, y_pred: LabelSequence, label: str | int | None = None) -> float:
    """The harmonic mean of precision and recall of one label; 0 if it is never right.

    Without `label` it is the unweighted mean over all labels (macro F1).
    """
    from sklearn.metrics import f1_score

    labels = None if label is None else [label]
    return float(f1_score(y_true, y_pred, labels=labels, average="macro", zero_division=0))


def matthews_correlation(y_true: LabelSequence, y_pred: LabelSequence) -> float:
    """Matthews' correlation coefficient, from -1 to 1; 0 if all labels are the same."""
    from sklearn.metrics import matthews_corrcoef

    with warnings.catch_warnings():  # scikit-learn warns of a single label
        warnings.simplefilter("ignore", UserWarning)
        return float(matthews_corrcoef(y_true, y_pred))


def correlations(y_true: Numbers, y_pred: Numbers) -> dict[str, float]:
    """`pearson`, and `spearman` of ranks, from -1 to 1; both are 0 if all numbers are the same."""
    from scipy.stats import pearsonr, spearmanr

    if len(set(y_true)) == 1 or len(set(y_pred)) == 1:
        return {"pearson": 0.0, "spearman": 0.0}
    pearson, spearman = (float(of(y_true, y_pred).statistic) for of in (pearsonr, spearmanr))
    return {"pearson": pearson, "spearman": spearman}


def multi_label_scores(y_true: Tags, y_pred: Tags) -> dict[str, float]:
    """`micro_f1`, `macro_f1` (0 for a label that is never right), and `accuracy`, the share of equal sets."""
    from sklearn.metrics import accuracy_score, f1_score
    from sklearn.preprocessing import MultiLabelBinarizer

    binarizer = MultiLabelBinarizer().fit([*y_true, *y_pred])
    if not len(binarizer.classes_):  # no text has a label, and none is predicted
        return {"micro_f1": 1.0, "macro_f1": 1.0, "accuracy": 1.0}
    # A column more, since scikit-learn reads a single column as the labels 0 and 1.
    both = [np.pad(binarizer.transform(labels), [(0, 0), (0, 1)]) for labels in (y_true, y_pred)]
    options = {"labels": range(len(binarizer.classes_)), "zero_division": 0}
    return {
        "micro_f1": float(f1_score(*both, average="micro", **options)),
        "macro_f1": float(f1_score(*both, average="macro", **options)),
        "accuracy": float(accuracy_score(*both)),
    }


def entity_scores(y_true: Tags, y_pred: Tags, scheme: TagScheme) -> dict[str, float]:
    """`precision`, `recall` and `f1` of entities; an entity is correct if its words and its label are.

    If there are no annotated entities, `f1` and `recall` are NaN, and so is `precision` if none is predicted.
    """
    from sklearn.metrics import precision_recall_fscore_support

    names, right, predicted = entity_labels(y_true, y_pred, scheme)
    if not names:
        return dict.fromkeys(("precision", "recall", "f1"), math.nan)
    micro = {"labels": names, "average": "micro", "zero_division": 0}
    precision, recall, score, _ = precision_recall_fscore_support(right, predicted, **micro)
    has_entities = any(right)
    return {
        "precision": float(precision),
        "recall": float(recall) if has_entities else math.nan,
        "f1": float(score) if has_entities else math.nan,
    }


def entity_labels(y_true: Tags, y_pred: Tags, scheme: TagScheme) -> tuple[list[str], list[str], list[str]]:
    """The entities of both sides in the form of scikit-learn's metrics.

    Returns:
      The labels of entities, sorted; and for each annotated or predicted entity its label on either side, ""
      where the other side has no such entity.
    """
    pairs = [("", "")]  # "" is never among the labels: scikit-learn then has a micro average, no accuracy
    for sentence in zip(y_true, y_pred, strict=True):
        right, predicted = (set(entity_spans(tags, scheme)) for tags in sentence)
        for span in sorted(right | predicted):
            pairs.append((span[0] if span in right else "", span[0] if span in predicted else ""))
    right_labels, predicted_labels = map(list, zip(*pairs, strict=True))
    return sorted({*right_labels, *predicted_labels} - {""}), right_labels, predicted_labels


def entity_spans(tags: Sequence[str], scheme: TagScheme) -> list[tuple[str, int, int]]:
    """The entities of a sentence: label, index of the first word, index after the last word.

    An inner or last part without a beginning of its label before it begins an entity, as in conlleval.

    >>> entity_spans(["B-PER", "I-PER", "B-PER", "O", "I-LOC", "NOUN", "NOUN"], PREFIXES)
    [('PER', 0, 2), ('PER', 2, 3), ('LOC', 4, 5), ('NOUN', 5, 6), ('NOUN', 6, 7)]
    """
    spans: list[tuple[str, int, int]] = []
    before = ("O", "")
    for place, tag in enumerate(map(scheme.read_tag, tags)):
        part, _, label = tag.partition("-")
        if before in {("B", label), ("I", label)} and part in ("I", "E"):
            spans[-1] = (*spans[-1][:2], place + 1)
        elif part != "O":
            spans.append((label, place, place + 1))
        before = (part, label)
    return spans


BINS = 10  # of probabilities, of equal width
MAX_POINTS = 500  # of a curve
MAX_CURVES = 10  # labels in a picture; of more it shows the most frequent ones


def calibration(scores: Any, is_right: Any) -> tuple[float, ReportTable]:
    """The expected calibration error, and a table of the bins that are not empty.

    Examples are put into bins of equal width by their probability. A bin includes its upper end. The error is
    the distance between a bin's mean probability and its share of right examples, averaged over the examples.

    Args:
      scores: probabilities of the predictions, [N].
      is_right: True for right predictions, bool [N].
    Source: Guo et al. 2017, arXiv 1706.04599, §2.
    """
    scores, is_right = np.asarray(scores, np.float64), np.asarray(is_right, bool)
    bins = np.searchsorted(np.linspace(0, 1, BINS + 1)[1:-1], scores)
    rows = []
    for number in np.unique(bins):
        inside = bins == number
        ends = f"{number / BINS:.1f} to {(number + 1) / BINS:.1f}"
        rows.append((ends, scores[inside].mean().item(), is_right[inside].mean().item(), int(inside.sum())))
    error = sum(count * abs(mean - share) for _, mean, share, count in rows) / max(len(scores), 1)
    columns = ("bin", "mean probability", "share that is right", "examples")
    return error, ReportTable("calibration", "Calibration", columns, rows, CALIBRATION)


def thresholds(scores: np.ndarray, is_label: np.ndarray, limit: int) -> np.ndarray:
    """Candidates for the best threshold of a label, and 0.5; ascending float64.

    A candidate lies halfway between a probability of an example without the label and the next higher one of
    an example with it. No other threshold is better for a metric that rises with each right decision.

    Args:
      scores: probabilities of the label, [N].
      is_label: True for examples with the label, bool [N].
      limit: largest number of candidates; of more it keeps evenly spaced ones.
    """
    values, group = np.unique(np.asarray(scores, np.float64), return_inverse=True)
    with_label = np.bincount(group, weights=is_label)
    has_label, has_none = with_label > 0, with_label < np.bincount(group)
    # The outermost candidates give the label to all examples or to none.
    ends = np.concatenate([[0.0], values, [1.0]])
    is_border = np.concatenate([[True], has_none]) & np.concatenate([has_label, [True]])
    candidates = ((ends[:-1] + ends[1:]) / 2)[is_border]
    if len(candidates) > limit:
        candidates = candidates[np.linspace(0, len(candidates) - 1, limit).round().astype(int)]
    return np.union1d(candidates, [0.5])


def precision_recall(labels: Sequence[str], is_label: np.ndarray, scores: np.ndarray) -> ReportTable:
    """Precision and recall of each of K labels at every threshold; names include the average precision.

    Args:
      labels: names of the labels, K.
      is_label: True for examples with the label, bool [N, K].
      scores: probabilities of the labels, [N, K].
    """
    from sklearn.metrics import average_precision_score, precision_recall_curve

    counts = is_label.sum(axis=0)
    rows: list[tuple[Any, ...]] = []
    for number in sorted(np.argsort(-counts, kind="stable")[:MAX_CURVES]):
        if counts[number]:
            of_label = is_label[:, number], scores[:, number]
            name = f"{labels[number]} (AP {average_precision_score(*of_label):.3f})"
            precision, recall, thresholds = precision_recall_curve(*of_label, drop_intermediate=True)
            points = list(zip(recall.tolist(), precision.tolist(), [*thresholds.tolist(), None], strict=True))
            places = np.unique(np.linspace(0, len(points) - 1, MAX_POINTS).astype(int))
            rows += [(name, *points[place]) for place in places]
    columns = ("label", "recall", "precision", "threshold")
    return ReportTable("precision_recall", "Precision and recall", columns, rows, LINES)
