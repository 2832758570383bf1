"""Reports of tagged words."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf.reports.content import Report, Table
from albert_tf.tasks.metrics.curves import calibration
from albert_tf.tasks.metrics.label_report import Inputs, confusion, table_of_labels, worst_errors
from albert_tf.tasks.metrics.labels import SINGLE_WORDS, Tags, entity_spans, find_scheme, read_tags
from albert_tf.utils.errors import listed, shown

MAX_KINDS = 30  # of tags in a picture, the most frequent of more


def tag_report(
    words: Tags, right: Tags, predicted: Tags, scores: Sequence[np.ndarray], inputs: Inputs
) -> Report:
    """The report of sentences whose words are tagged.

    Args:
      words: of each sentence.
      right: their tags.
      predicted: the same.
      scores: probabilities of the predicted tags.
      inputs: columns of the table of errors.
    Returns:
      `ece` of words; tables of the kinds of entities, of which tag is taken for which, of calibration, and of
      sentences with entities that are missed or wrong, those of most of them first.
    """
    of_words = [[tag for tags in sentences for tag in tags] for sentences in (right, predicted)]
    is_right = [one == other for one, other in zip(*of_words, strict=True)]
    error, reliability = calibration(np.concatenate(scores) if scores else [], is_right)
    common = [tag for tag, _ in collections.Counter(of_words[0] + of_words[1]).most_common(MAX_KINDS)]
    scheme = find_scheme(of_words[0] + of_words[1])
    found = [[set(entity_spans(tags, scheme)) for tags in sentences] for sentences in (right, predicted)]
    wrong = [(one - other, other - one) for one, other in zip(*found, strict=True)]
    numbers = [len(missed) + len(made_up) for missed, made_up in wrong]
    order = sorted(np.flatnonzero(numbers), key=lambda row: -numbers[row])
    columns = {
        **inputs,
        "text": [" ".join(sentence) for sentence in words],
        "missed": [_listed(sentence, one) for sentence, (one, _) in zip(words, wrong, strict=True)],
        "wrong": [_listed(sentence, other) for sentence, (_, other) in zip(words, wrong, strict=True)],
    }
    tables = [
        _entity_table(right, predicted),
        confusion(of_words[0], of_words[1], common, common),
        reliability,
        worst_errors(order, columns),
    ]
    return Report({"ece": error}, tables, describe_tags(of_words[0]))


def describe_tags(tags: Iterable[str]) -> list[str]:
    """Lines about the right tags of all words: the scheme that they are read in, and a lack of entities."""
    tags = set(tags)
    scheme = find_scheme(tags)
    names = sorted(tag for tag in tags if scheme.read_tag(tag) != "O")
    if not names:
        return ["no word has a tag other than O: f1 and recall of entities are undefined"]
    if scheme == SINGLE_WORDS:
        what = f"no scheme of entities was recognised in {listed(map(shown, names))}"
        return [f"{what}: words are scored one by one"]
    others = [shown(tag) for tag in names if scheme.tag is not None and not scheme.tag.fullmatch(tag)]
    singles = f"; words of {listed(others)} are scored one by one" if others else ""
    return [f"entities: {scheme.name}{singles}"]


def _entity_table(right: Tags, predicted: Tags) -> Table:
    """Precision, recall, F1 and support of each kind of entity, as `entity_scores` counts them."""
    from seqeval.metrics import classification_report

    both = read_tags(right, predicted)
    if all(tag == "O" for tags in both[0] + both[1] for tag in tags):  # seqeval fails without any
        return table_of_labels("Entities", [])
    found = classification_report(*both, output_dict=True, zero_division=0)
    return table_of_labels("Entities", found.items())


def _listed(words: Sequence[str], entities: set[tuple[str, int, int]]) -> str:
    """Entities of a sentence in words."""
    in_order = sorted(entities, key=lambda entity: entity[1:])
    return "; ".join(f"{label}: {' '.join(words[first:last])}" for label, first, last in in_order)
