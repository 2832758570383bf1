"""Data of scikit-learn for TextEstimator, and a run that can be pickled."""

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
from albert_tf.inference.predictor import Predictor, load_predictor
from albert_tf.io import dump_json, replace_folder, temporary_path
from albert_tf.runs.load_save import load, save
from albert_tf.runs.run_directory import (
    CONFIG_FILE,
    METRICS_FILE,
    RECIPE_FILE,
    TASK_FILE,
    RunDirectory,
)
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TextRecord, check_forms, normalize_label
from albert_tf.text.text_tokenizer import as_list
from albert_tf.text.tokenizer_config import TOKENIZER_FILE, VOCABULARY_FILES

MADE_BY = "TextEstimator.fit"  # entry `command` of recipe.json; such runs may be replaced


class PickledRun:
    """A temporary run directory with the weights of one step, deleted with this object.

    A pickle contains its files. `output` is the path of a copy.
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
            if filesystem.exists(log):  # converted runs have none
                files[METRICS_FILE] = filesystem.read_bytes(log)
            return cls(files)

    def __del__(self) -> None:
        self._folder.cleanup()  # otherwise Python warns

    def copy_to(self, output: RunDirectory) -> None:
        """Writes the run to a path that `check_replaceable` has accepted."""
        files, place = _files(Path(self.path)), Path(os.path.realpath(output.path))
        if (
            filesystem.is_local(output.path) and place.exists()
        ):  # the old run stays until the new one is whole
            with temporary_path(place) as new:
                _write(str(new), files)
                replace_folder(new, place)
        else:
            filesystem.remove_folder(output.path)
            _write(output.path, files)
        self.output = output.path

    @functools.cached_property
    def predictor(self) -> Predictor:
        """The model that answers."""
        return load_predictor(self.path, None)

    def __reduce__(self) -> tuple[type[PickledRun], tuple[Any, ...]]:
        return PickledRun, (_files(Path(self.path)), self.output)


def check_replaceable(output: RunDirectory) -> None:
    """Raises FileExistsError unless the path is free, or holds a run of an earlier fit and nothing else."""
    if output.recipe.get("command") != MADE_BY:
        filesystem.check_new_folder(output.path)
        return
    vocabularies = (name for names in VOCABULARY_FILES.values() for name in names)
    own = {"checkpoints", CONFIG_FILE, TASK_FILE, RECIPE_FILE, METRICS_FILE, TOKENIZER_FILE, *vocabularies}
    if others := sorted(set(filesystem.list_entries(output.path)) - own):
        raise FileExistsError(
            f"{output} also holds {others[0]}, which `fit` would delete: move it, or name another `output`"
        )


def _files(folder: Path) -> dict[str, bytes]:
    """The contents of the files in a folder, by relative path."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _write(folder: str, files: Mapping[str, bytes]) -> None:
    with filesystem.new_folder(folder, {}) as place:
        for name, content in files.items():
            filesystem.write_bytes(filesystem.join(place, name), content)


def write_table(file: Path, texts: Sequence[TextRecord], labels: Sequence[str | float]) -> Columns:
    """Writes a JSON line for each text, or pair, and its label. Returns the names of the fields.

    Raises InputError if the numbers of texts and labels differ, or if only some texts are pairs.
    """
    if not texts or len(texts) != len(labels):
        raise InputError(f"X holds {len(texts)} texts and y {len(labels)} labels: give one for each text")
    columns = Columns("text", "text_pair" if check_forms(texts) else None, "label")
    rows = (
        {"text": text.text, "text_pair": text.text_pair, "label": label}
        for text, label in zip(texts, labels, strict=True)
    )
    file.write_text("".join(dump_json(row) + "\n" for row in rows), encoding="utf-8")
    return columns


def column_names(X: Any) -> np.ndarray | None:
    """Names of the columns of a table; None if X is not a table."""
    names = getattr(X, "columns", None)
    if names is None or np.ndim(X) != 2 or not all(isinstance(name, str) for name in names):
        return None
    return np.array([*names], object)


def check_columns(columns: np.ndarray | None, fitted: np.ndarray | None) -> None:
    """Raises InputError unless the columns of a table are the columns of `fit`, in the same order."""
    if columns is not None and fitted is not None and columns.tolist() != fitted.tolist():
        raise InputError(f"X has the columns {', '.join(columns)}: `fit` was given {', '.join(fitted)}")


def check_one_dimensional(y: Any) -> Any:
    """Returns labels or numbers as [n]. A column [n, 1] is accepted with scikit-learn's warning.

    Raises InputError if y is None or has several values per text.
    """
    if y is None:
        raise InputError("y is missing: give one label or number for each text, [n]")
    try:
        shape = np.shape(y)
    except ValueError:  # lists of several lengths
        shape = (len(y), -1)
    if len(shape) == 2 and shape[1] == 1:
        return column_or_1d(y, warn=True)
    if len(shape) != 1 or any(isinstance(value, set | frozenset) for value in as_list(y)):
        raise InputError(
            "y holds no label or several of a text: give one for each, [n]; `albert-tf finetune --task "
            "multi_label` trains for several"
        )
    return y


def classes_and_names(y: Any) -> tuple[np.ndarray, list[str]]:
    """The distinct labels, ascending, and the name of each text's label.

    Raises InputError if y, [n], does not hold labels; it names the row of a missing one.
    """
    values = np.asarray(y)
    for row, value in enumerate(as_list(y)):
        if is_missing(value):
            raise InputError(f"y[{row}]={value!r} is a missing label: leave out its row")
    try:
        classes, places = np.unique(values, return_inverse=True)
    except TypeError:  # types that cannot be compared
        raise InputError("y holds labels of several types: make all of them texts or numbers") from None
    names = class_names(classes)
    if len({name.strip() for name in names} - {""}) < len(names) or any(x != x.strip() for x in names):
        raise InputError(f"y: {names} are not distinct names without spaces around them: rename them")
    return classes, [names[place] for place in places]


def class_names(classes: Iterable[Any]) -> list[str]:
    """The names of labels in a run."""
    return [normalize_label(str(label)) for label in classes]
