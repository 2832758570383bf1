"""Formats of data: functions that read records and write predictions."""

from __future__ import annotations

import dataclasses
import gzip
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from albert_tf.errors import InputError, already_exists_error
from albert_tf.io import PathLike, atomic_file, check_output_path, new_local_folder, reraise_with_path
from albert_tf.tasks.tables import table_ending
from albert_tf.text.files import Paths, distinct_paths

Records = Sequence[Any]

# From the predictions, one for each record, to the contents of files by their names.
Content = str | bytes
PredictionWriter = Callable[[Sequence[Any]], Mapping[str, Content]]

TRAIN, DEV, TEST = "train", "dev", "test"  # splits in a folder


class OutputFormat(NamedTuple):
    """The format of the output of predictions."""

    file: str | None = None  # the ending of this name decides the format; None: the format of the input
    is_file: bool = False  # True if the output is one file, False if it is a folder of files
    prediction: str | None = None  # name of the column of predictions; None: "prediction"
    score: str | None = None  # name of the column of scores; None: "score"
    probabilities: bool = False  # True for a column of probabilities for each label
    top_k: int | None = None  # number of likeliest labels to write instead of one, with their probabilities
    labels: Sequence[str] = ()  # labels of the run, if it has any
    label_separator: str | None = None  # between several labels in a cell; see `Columns`

    @property
    def ending(self) -> str | None:
        """The ending of the file's name; None if the output has the format of the input."""
        return None if self.file is None else table_ending(self.file)

    def columns(self, taken: Collection[str], file: str) -> tuple[str, ...]:
        """The names of the columns to add; an InputError if the file has one of them (`taken`)."""
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
        """Raises an InputError if settings for columns are set, since the files have no columns for them."""
        if self.prediction or self.score:
            raise InputError(f"`prediction_column` and `score_column`: {what} has no names of columns")
        if self.probabilities or self.top_k:
            raise InputError(f"`probabilities` and `top_k`: {what} has no columns for them")

    def check_folder(self, what: str) -> None:
        """Raises an InputError if the output is one file, since there are several files to write."""
        if self.is_file:
            raise InputError(f"the predictions for {what} are several files: name a folder by `output`")


@dataclasses.dataclass(frozen=True)
class DataFormat:
    """The format of the data of a task."""

    # Arguments: a file (for RACE a folder), whether labels are needed, and the columns of a user's table. It
    # raises a FileNotFoundError, and InputErrors that name file and line.
    read_file: Callable[[PathLike, bool, Any], Records]
    # Arguments: the input files (or one folder), their records and the format of the output. It is called
    # before the prediction, and raises an InputError if the output could not be written afterwards.
    create_writer: Callable[[Any, Records, OutputFormat], PredictionWriter]
    read_split: Callable[[str, str], Records] | None = (
        None  # arguments: folder and name; None: data is a file
    )
    dev: tuple[str, ...] = (DEV,)  # names of the splits to evaluate on; the first one must exist
    test: tuple[str, ...] = (TEST,)  # names of the splits to predict for
    is_split: Callable[[str], bool] = lambda folder: False  # True if a folder is one split
    writes_folder: bool = False  # True if predictions are several files, also for one input

    @property
    def is_folder(self) -> bool:
        """True if the data is a folder of several splits."""
        return self.read_split is not None

    def read(self, files: Paths, needs_labels: bool, columns: Any = None) -> Records:
        """The records of one or several files or globs, in their order.

        See `read_file` for the other arguments. Raises an InputError if a file is named twice.
        """
        records: list[Any] = []
        for file in distinct_paths(files):
            records += self.read_file(file, needs_labels, columns)
        return records

    def read_splits(self, folder: PathLike, names: Sequence[str]) -> dict[str, Records]:
        """Reads splits of a folder by their names; splits other than the first one may be missing.

        Raises a FileNotFoundError if the first split is missing, an InputError if there are no names.
        """
        assert self.read_split is not None
        folder, splits = os.fspath(folder), {}
        if not names:
            raise InputError(f"{folder}: the task has no set with labels, only one to predict for")
        for name in names:
            try:
                splits[name] = self.read_split(folder, name)
            except FileNotFoundError:
                if not splits:
                    raise
        return splits


SAME_AS_INPUT = OutputFormat()  # a folder of files in the format of the input


def shortest(value: Any) -> float:
    """The float with the fewest digits that is the same number in float32.

    >>> shortest(np.float32(0.1))
    0.1
    """
    return float(str(np.float32(value)))


def parse_output_format(output: PathLike | BinaryIO, **further: Any) -> OutputFormat:
    """The format of an output, a path or a stream; `further` are further fields of `OutputFormat`.

    Raises an OSError if the output cannot be written, or the folder is not empty.
    """
    if not isinstance(output, str | os.PathLike):  # a stream
        return OutputFormat(None, True, **further)
    output = Path(output)
    # The ending of a file's name is not a number: v1.0 is a folder.
    is_file = bool(output.suffix) and not output.suffix[1:].isdecimal() and not output.is_dir()
    if not is_file and (output.is_file() or (output.is_dir() and any(output.iterdir()))):
        raise already_exists_error(output)
    check_output_path(output, is_folder=not is_file)
    return OutputFormat(str(output) if is_file else None, is_file, **further)


def write_predictions(output: PathLike | BinaryIO, files: Mapping[str, Content], is_file: bool) -> list[Path]:
    """Writes files of predictions by their names, all of them or none; returns their paths.

    The output is a stream, or a file or a folder, as `is_file` says. A file whose name ends in .gz is
    compressed.
    """
    if not isinstance(output, str | os.PathLike):
        stream = Path(str(getattr(output, "name", "output")))
        with reraise_with_path(stream, stream):
            output.write(b"".join(map(encode_content, files.values())))
        return []
    output = Path(output)
    if is_file:
        (text,) = files.values()
        _write(output, text)
        return [output]
    with new_local_folder(output) as folder:
        for name, text in files.items():
            _write(folder / name, text)
    return [output / name for name in files]


def encode_content(content: Content) -> bytes:
    """The content of a file as bytes."""
    return content.encode() if isinstance(content, str) else content


def _write(path: Path, text: Content) -> None:
    content = encode_content(text)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        # Without the time of day, so that the same predictions are the same bytes.
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
