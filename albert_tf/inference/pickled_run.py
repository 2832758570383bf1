"""A fine-tuned run without what training would go on with, in a folder of its own."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf import filesystem
from albert_tf.inference.predictor import Predictor, load_predictor
from albert_tf.io import replace_folder, scratch
from albert_tf.runs.load_save import load, save
from albert_tf.runs.run_directory import METRICS_FILE, RunDirectory

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
            save(
                load(run), best, run.vocabulary, run.default_step() or 0, run.tokenizer, run.recipe, run.task
            )
            log = run.file(METRICS_FILE)  # which a converted run has not
            return cls(
                _files(best) | ({METRICS_FILE: filesystem.read_bytes(log)} if filesystem.exists(log) else {})
            )

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
    def answerer(self) -> Predictor:
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
