"""Texts, labels and weights as scikit-learn hands them to an estimator, for fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.inference.texts import text_records
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.datasets.formats import encoded
from albert_tf.tasks.datasets.tables import Row, Table, table_text
from albert_tf.tasks.examples.records import same_label
from albert_tf.tokenizers.given import listed
from albert_tf.utils.errors import InputError

_MISSING = ("None", "nan", "NaT", "<NA>")  # labels that are none, as Python, NumPy and pandas spell them


def given_texts(X: Any) -> list[str | tuple[str, str]]:
    """Texts, or pairs of them, of any form of `text_records`, whose errors these are, too."""
    records = text_records(X, "X")
    return [x.text if x.text_pair is None else (x.text, x.text_pair) for x in records]


def write_table(file: Path, texts: Sequence[str | tuple[str, str]], labels: Sequence[str | float]) -> Columns:
    """Writes a table of texts, or of pairs, and their labels; returns the names of its columns.

    InputError if there are not as many labels as texts.
    """
    if len(texts) != len(labels):
        raise InputError(f"X holds {len(texts)} texts and y {len(labels)} labels: give one a text")
    if not texts:
        raise InputError("X holds no texts")
    columns = Columns("text", None if isinstance(texts[0], str) else "text_pair", "label")
    names = tuple(name for name in columns if name is not None)
    rows = [
        Row(number, [*([text] if isinstance(text, str) else text), label])
        for number, (text, label) in enumerate(zip(texts, labels, strict=True))
    ]
    file.write_bytes(encoded(table_text(Table("X", names, rows), file.suffix)))
    return columns


def classes_and_names(y: Any) -> tuple[np.ndarray, list[str]]:
    """The labels that there are, ascending, and the name of each text's label.

    InputError if y is not labels, [n]; it names the row of a missing one.
    """
    values = np.asarray(y)
    if values.ndim != 1:
        raise InputError(f"y has the shape {list(values.shape)}: give one label a text, [n]")
    for row, value in enumerate(listed(y)):
        if not isinstance(value, str) and str(value) in _MISSING:
            raise InputError(f"y[{row}]={value!r} is a missing label: leave out its row")
    try:
        classes, places = np.unique(values, return_inverse=True)
    except TypeError:  # which cannot be compared
        raise InputError("y holds labels of several types: make all of them texts or numbers") from None
    names = label_names(classes)
    if len({name.strip() for name in names} - {""}) < len(names) or any(x != x.strip() for x in names):
        raise InputError(f"y: {names} are not distinct names without spaces around them: rename them")
    return classes, [names[place] for place in places]


def label_names(classes: Iterable[Any]) -> list[str]:
    """The names of labels in a run."""
    return [same_label(str(label)) for label in classes]


def row_weights(sample_weight: Any, count: int) -> list[float]:
    """Weights of so many texts in the loss; an InputError where they are none."""
    values = np.asarray(sample_weight, float)
    if values.shape != (count,):
        raise InputError(
            f"sample_weight has the shape {list(values.shape)}: give one weight a text, [{count}]"
        )
    for row, value in enumerate(values.tolist()):
        if not 0 <= value < np.inf:
            raise InputError(f"sample_weight[{row}]={value} must be a finite number of at least 0")
    if not values.any():
        raise InputError("sample_weight: all are 0: nothing would be learned")
    return values.tolist()
