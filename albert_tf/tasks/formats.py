"""Formats of data: how records are read, and how predictions for them are written."""

from __future__ import annotations

import dataclasses
import gzip
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from albert_tf.errors import InputError, exists_already
from albert_tf.io import PathLike, check_place, naming_path, new_directory, whole_file
from albert_tf.tasks.tables import table_ending
from albert_tf.text.files import Paths, distinct_paths

Records = Sequence[Any]

# From the predictions, one a record, to the texts of files, or bytes of Parquet, by their names.
Content = str | bytes
PredictionWriter = Callable[[Sequence[Any]], Mapping[str, Content]]

TRAIN, DEV, TEST = "train", "dev", "test"  # sets in a folder


class OutputFormat(NamedTuple):
    """The form in which predictions are written."""

    file: str | None = None  # whose name's ending decides the format; None: the format of the input
    is_file: bool = False  # True if all is to be one file, False if it is a folder of them
    prediction: str | None = None  # name of the column of predictions; None: "prediction"
    score: str | None = None  # name of the column of scores; None: "score"
    probabilities: bool = False  # True for a column of probabilities for each label
    top_k: int | None = None  # likeliest labels instead of the prediction, and their probabilities
    labels: Sequence[str] = ()  # of the run, where it has any

    @property
    def ending(self) -> str | None:
        """That of the file's name; None where the input's format is kept."""
        return None if self.file is None else table_ending(self.file)

    def columns(self, taken: Collection[str], file: str) -> tuple[str, ...]:
        """The names of the columns to add; an InputError where there is such a column already."""
        names = [self.prediction or "prediction", self.score or "score"]
        if self.probabilities:
            names += [f"probability_{label}" for label in self.labels]
        for number, name in enumerate(names):
            if name in [*taken, *names[:number]]:
                remedy = "name others by `prediction_column` and `score_column`"
                remedy = remedy if number < 2 else "rename it, or leave out `probabilities`"
                raise InputError(f"{file}: there is a column {name!r} already: {remedy}")
        return tuple(names)

    def check_no_columns(self, what: str) -> None:
        """Refuses names of columns, and what further ones are for, where files have none."""
        if self.prediction or self.score:
            raise InputError(f"`prediction_column` and `score_column`: {what} has no names of columns")
        if self.probabilities or self.top_k:
            raise InputError(f"`probabilities` and `top_k`: {what} has no columns for them")

    def check_folder(self, what: str) -> None:
        """Refuses a single file for what several are written of."""
        if self.is_file:
            raise InputError(f"the predictions for {what} are several files: name a folder by `output`")


@dataclasses.dataclass(frozen=True)
class DataFormat:
    """Format of the data of a task."""

    # From a file (of RACE: a folder), whether labels are needed, and the columns of a user's own table. It
    # raises FileNotFoundError, and InputErrors that name file and line.
    read_file: Callable[[PathLike, bool, Any], Records]
    # From the files that are predicted for (of folders, one), their records and the form of the output. It is
    # called before anything is predicted, and refuses what could not be written afterwards.
    files: Callable[[Any, Records, OutputFormat], PredictionWriter]
    read_set: Callable[[str, str], Records] | None = None  # of a folder and a name, if the data is a folder
    dev: tuple[str, ...] = (DEV,)  # sets to evaluate on, the first of which is always there
    test: tuple[str, ...] = (TEST,)  # those to predict for
    is_set: Callable[[str], bool] = lambda folder: False  # True of a folder that is a set by itself

    @property
    def is_folder(self) -> bool:
        """True if the data is a folder of several sets."""
        return self.read_set is not None

    def read(self, files: Paths, needs_labels: bool, columns: Any = None) -> Records:
        """The records of one or several files or globs, in their order; arguments are those of `read_file`.

        An InputError if a file is given twice.
        """
        each = [self.read_file(file, needs_labels, columns) for file in distinct_paths(files)]
        return [record for records in each for record in records]

    def read_sets(self, folder: PathLike, names: Sequence[str]) -> dict[str, Records]:
        """The records of sets in a folder by name; of the names but the first, of those that are there.

        A FileNotFoundError if the first set is not there, an InputError if there are no names.
        """
        assert self.read_set is not None
        folder, found = os.fspath(folder), {}
        if not names:
            raise InputError(f"{folder}: the task has no set with labels, only one to predict for")
        for name in names:
            try:
                found[name] = self.read_set(folder, name)
            except FileNotFoundError:
                if not found:
                    raise
        return found


SAME_AS_INPUT = OutputFormat()  # a folder, with the formats of what is predicted for


def shortest(value: Any) -> float:
    """A float32 number as the float with the fewest digits that is written for it.

    >>> shortest(np.float32(0.1))
    0.1
    """
    return float(str(np.float32(value)))


def output_format(output: PathLike | BinaryIO, **further: Any) -> OutputFormat:
    """The form of an output, with further fields of `OutputFormat`.

    An OSError if nothing can be written there, or the folder is not empty.
    """
    if not isinstance(output, str | os.PathLike):  # a stream
        return OutputFormat(None, True, **further)
    output = Path(output)
    # A file's name has an ending other than a number, which v1.0 has.
    is_file = bool(output.suffix) and not output.suffix[1:].isdecimal() and not output.is_dir()
    if not is_file and (output.is_file() or (output.is_dir() and any(output.iterdir()))):
        raise exists_already(output)
    check_place(output, is_folder=not is_file)
    return OutputFormat(str(output) if is_file else None, is_file, **further)


def write_predictions(output: PathLike | BinaryIO, files: Mapping[str, Content]) -> list[Path]:
    """Writes files of predictions by their places in the output, all of them or none; returns their paths.

    They are compressed where the name ends in .gz. The output is as `predict` takes it.
    """
    if not isinstance(output, str | os.PathLike):
        stream = Path(str(getattr(output, "name", "output")))
        with naming_path(stream, stream):
            output.write(b"".join(map(encode_content, files.values())))
        return []
    output = Path(output)
    if output_format(output).is_file:
        (text,) = files.values()
        _write(output, text)
        return [output]
    with new_directory(output) as folder:
        for name, text in files.items():
            _write(folder / name, text)
    return [output / name for name in files]


def encode_content(content: Content) -> bytes:
    """The bytes of a file."""
    return content.encode() if isinstance(content, str) else content


def _write(path: Path, text: Content) -> None:
    content = encode_content(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        # Without the time of day, so that the same predictions are the same bytes.
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
