"""Place and format of predictions, by the name of the output."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.tasks.datasets.tables import table_ending
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import check_place, new_directory, whole_file

PathLike = str | os.PathLike[str]

# From the predictions, one a record, to the texts of files by their names.
Files = Callable[[Sequence[Any]], dict[str, str]]


class Form(NamedTuple):
    """The form in which predictions are written."""

    file: str | None = None  # whose name's ending decides the format; None: the format of the input
    is_file: bool = False  # True if all is to be one file, False if it is a folder of them
    prediction: str | None = None  # name of the column of predictions; None: "prediction"
    score: str | None = None  # name of the column of scores; None: "score"

    @property
    def ending(self) -> str | None:
        """That of the file's name; None where the input's format is kept."""
        return None if self.file is None else table_ending(self.file)

    def columns(self, taken: Collection[str], file: str) -> tuple[str, str]:
        """The names of the two columns; an InputError where there is such a column already."""
        prediction, score = self.prediction or "prediction", self.score or "score"
        for name, others in ((prediction, taken), (score, [*taken, prediction])):
            if name in others:
                raise InputError(
                    f"{file}: there is a column {name!r} already: give other names by `prediction_column` "
                    "and `score_column`"
                )
        return prediction, score

    def check_no_columns(self, what: str) -> None:
        """Refuses names of columns for files that have none."""
        if self.prediction or self.score:
            raise InputError(f"`prediction_column` and `score_column`: {what} has no names of columns")

    def check_folder(self, what: str) -> None:
        """Refuses a single file for what several are written of."""
        if self.is_file:
            raise InputError(f"the predictions for {what} are several files: name a folder by `output`")


AS_READ = Form()  # a folder, with the formats of what is predicted for


def shortest(value: Any) -> float:
    """A float32 number as the float with the fewest digits that is written for it.

    >>> shortest(np.float32(0.1))
    0.1
    """
    return float(str(np.float32(value)))


def form_of(output: PathLike, prediction: str | None = None, score: str | None = None) -> Form:
    """The form of an output; an OSError if nothing can be written there, or the folder is not empty."""
    output = Path(output)
    # A file's name has an ending other than a number, which v1.0 has.
    is_file = bool(output.suffix) and not output.suffix[1:].isdecimal() and not output.is_dir()
    if not is_file and (output.is_file() or (output.is_dir() and any(output.iterdir()))):
        raise FileExistsError(f"{output} exists already and is not empty: name another place")
    check_place(output, is_folder=not is_file)
    return Form(str(output) if is_file else None, is_file, prediction, score)


def write_predictions(output: PathLike, files: Mapping[str, str]) -> list[Path]:
    """Writes files of predictions, all of them or none; compressed where the name ends in .gz.

    Args:
      output: where a single file goes if this name has an ending; else the folder of all, which does not
        exist yet or is empty.
      files: the text of each by its place in the folder.
    Returns:
      The paths of the files.
    Raises:
      OSError: something cannot be written, or there is something in the folder.
    """
    output = Path(output)
    if form_of(output).is_file:
        (text,) = files.values()
        _write(output, text)
        return [output]
    with new_directory(output) as folder:
        for name, text in files.items():
            _write(folder / name, text)
    return [output / name for name in files]


def _write(path: Path, text: str) -> None:
    content = text.encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary:
        # Without the time of day, so that the same predictions are the same bytes.
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
