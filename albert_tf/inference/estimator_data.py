"""What TextEstimator makes of scikit-learn's data, and how it pickles its run."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from albert_tf import filesystem
from albert_tf.errors import InputError, is_missing
from albert_tf.inference.inputs import expand_weight
from albert_tf.inference.predictor import Predictor, load_predictor
from albert_tf.io import dump_json, replace_folder, scratch
from albert_tf.runs.load_save import load, save
from albert_tf.runs.run_directory import METRICS_FILE, RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TextRecord, same_label
from albert_tf.text.text_tokenizer import as_list

MADE_BY = "TextEstimator.fit"  # entry `command` of recipe.json, of runs that may be replaced


class PickledRun:
    """A run directory with the weights of one step alone, which lives as long as this object.

    A pickle carries its files. `output` is the place of a copy.
    """

    def __init__(self, files: Mapping[str, bytes], output: str | None = None):
        self.output = output
        self._folder = tempfile.TemporaryDirectory()
        self.path = str(Path(self._folder.name, "run"))
        _write(self.path, files)

    @classmethod
    def of(cls, run: RunDirectory) -> PickledRun:
        """The best step of a fine-tuned run."""
        with tempfile.TemporaryDirectory() as folder:
            best = Path(folder, "run")
            step = run.default_step() or 0
            save(load(run), best, run.vocabulary, step, run.tokenizer, run.recipe, run.task)
            files, log = _files(best), run.file(METRICS_FILE)
            if filesystem.exists(log):  # which a converted run has not
                files[METRICS_FILE] = filesystem.read_bytes(log)
            return cls(files)

    def __del__(self) -> None:
        self._folder.cleanup()  # where Python would warn that nobody has done so

    def copy_to(self, output: RunDirectory) -> None:
        """Writes the run to a place for which `check_replaceable` has been called."""
        files, place = _files(Path(self.path)), Path(os.path.realpath(output.path))
        if filesystem.is_local(output.path) and place.exists():  # whose run stays until the new one is whole
            with scratch(place) as new:
                _write(str(new), files)
                replace_folder(new, place)
        else:
            filesystem.remove_folder(output.path)
            _write(output.path, files)
        self.output = output.path

    @functools.cached_property
    def predictor(self) -> Predictor:
        """The model, which answers."""
        return load_predictor(self.path, None)

    def __reduce__(self) -> tuple[type[PickledRun], tuple[Any, ...]]:
        return PickledRun, (_files(Path(self.path)), self.output)


def check_replaceable(output: RunDirectory) -> None:
    """FileExistsError unless a place is free, or holds a run that an earlier fit has written."""
    if output.recipe.get("command") != MADE_BY:
        filesystem.check_free(output.path)


def _files(folder: Path) -> dict[str, bytes]:
    """The contents of the files in a folder by their paths there."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    with filesystem.new_folder(folder, {}) as place:
        for name, content in files.items():
            filesystem.write_bytes(filesystem.join(place, name), content)


def write_table(file: Path, texts: Sequence[TextRecord], labels: Sequence[str | float]) -> Columns:
    """Writes a JSON line for each text, or pair, and its label; returns the names of their fields.

    InputError if there are not as many labels as texts, or some are pairs and some are not.
    """
    if not texts or len(texts) != len(labels):
        raise InputError(f"X holds {len(texts)} texts and y {len(labels)} labels: give one a text")
    if len({text.text_pair is None for text in texts}) != 1:
        raise InputError("X holds both single texts and pairs")
    columns = Columns("text", None if texts[0].text_pair is None else "text_pair", "label")
    rows = (
        {"text": text.text, "text_pair": text.text_pair, "label": label}
        for text, label in zip(texts, labels, strict=True)
    )
    file.write_text("".join(dump_json(row) + "\n" for row in rows), encoding="utf-8")
    return columns


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
    values = expand_weight(sample_weight, count)
    assert values is not None
    if not values.any():
        raise InputError("sample_weight: all are 0: nothing would be learned")
    return values.tolist()
