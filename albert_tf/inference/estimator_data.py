"""Texts, labels and weights as scikit-learn hands them to an estimator, for fine-tuning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from albert_tf.errors import InputError, is_missing
from albert_tf.inference.label_encoder import expand_weight
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.formats import encode_content
from albert_tf.tasks.records import TextRecord, same_label
from albert_tf.tasks.tables import Row, Table, table_text
from albert_tf.text.text_tokenizer import as_list


def write_table(file: Path, texts: Sequence[TextRecord], labels: Sequence[str | float]) -> Columns:
    """Writes a JSON line for each text, or pair, and its label; returns the names of their fields.

    InputError if there are not as many labels as texts, or some are pairs and some are not.
    """
    if not texts or len(texts) != len(labels):
        raise InputError(f"X holds {len(texts)} texts and y {len(labels)} labels: give one a text")
    if len({text.text_pair is None for text in texts}) != 1:
        raise InputError("X holds both single texts and pairs")
    columns = Columns("text", None if texts[0].text_pair is None else "text_pair", "label")
    names = tuple(filter(None, columns))
    rows = [
        Row(number, [*filter(lambda x: x is not None, (text.text, text.text_pair)), label])
        for number, (text, label) in enumerate(zip(texts, labels, strict=True), start=1)
    ]
    file.write_bytes(encode_content(table_text(Table("X", names, rows), file.suffix)))
    return columns


def to_python(value: Any) -> Any:
    """A scalar of NumPy, which grids of hyper-parameters hold, as one of Python; others as they are."""
    return value.item() if isinstance(value, np.generic) else value


def column_names(X: Any) -> np.ndarray | None:
    """Names of the columns of a table; None where X is none."""
    names = getattr(X, "columns", None)
    if names is None or np.ndim(X) != 2 or not all(isinstance(name, str) for name in names):
        return None
    return np.array([*names], object)


def check_columns(given: np.ndarray | None, fitted: np.ndarray | None) -> None:
    """InputError for a table with other columns than that of `fit`, or in another order."""
    if given is not None and fitted is not None and given.tolist() != fitted.tolist():
        raise InputError(f"X has the columns {', '.join(given)}: `fit` was given {', '.join(fitted)}")


def one_dimensional(y: Any) -> Any:
    """Labels or numbers, [n]; a column, [n, 1], is taken with a warning of scikit-learn.

    InputError if there are several a text, or none at all.
    """
    if y is None:
        raise InputError("y is missing: give one label or number a text, [n]")
    try:
        shape = np.shape(y)
    except ValueError:  # lists of several lengths
        shape = (len(y), -1)
    if len(shape) == 2 and shape[1] == 1:
        return column_or_1d(y, warn=True)
    if len(shape) != 1 or any(isinstance(value, set | frozenset) for value in as_list(y)):
        raise InputError(
            "y holds no label or several of a text: give one a text, [n]; `albert-tf finetune --task "
            "multi_label` trains for several"
        )
    return y


def classes_and_names(y: Any) -> tuple[np.ndarray, list[str]]:
    """The labels that there are, ascending, and the name of each text's label.

    InputError if y, [n], is not labels; it names the row of a missing one.
    """
    values = np.asarray(y)
    for row, value in enumerate(as_list(y)):
        if is_missing(value):
            raise InputError(f"y[{row}]={value!r} is a missing label: leave out its row")
    try:
        classes, places = np.unique(values, return_inverse=True)
    except TypeError:  # which cannot be compared
        raise InputError("y holds labels of several types: make all of them texts or numbers") from None
    names = class_names(classes)
    if len({name.strip() for name in names} - {""}) < len(names) or any(x != x.strip() for x in names):
        raise InputError(f"y: {names} are not distinct names without spaces around them: rename them")
    return classes, [names[place] for place in places]


def class_names(classes: Iterable[Any]) -> list[str]:
    """The names of labels in a run."""
    return [same_label(str(label)) for label in classes]


def row_weights(sample_weight: Any, count: int) -> list[float]:
    """Weights of so many texts in the loss, by one a text or one of all; InputError where they are none."""
    values = np.asarray(expand_weight(sample_weight, count), float)
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
