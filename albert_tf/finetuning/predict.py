"""Files of predictions for files of data: `predict`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.run import read_task
from albert_tf.data.tasks.columns import Columns
from albert_tf.data.tasks.glue import GLUE
from albert_tf.errors import InputError
from albert_tf.finetuning.entries import read_columns, run_task
from albert_tf.finetuning.predictions.files import check_output, write_predictions
from albert_tf.finetuning.predictions.submissions import write_submission
from albert_tf.finetuning.trained import Trained, read_trained

PathLike = str | os.PathLike[str]


def predict(
    run: PathLike,
    source: PathLike,
    output: PathLike,
    *,
    task: str | None = None,
    columns: Columns | None = None,
    step: int | None = None,
    batch_size: int = 32,
) -> list[str]:
    """Writes what a fine-tuned run predicts for a file or a folder of its task.

    Args:
      run: its directory.
      source: a file with or without labels, or the folder of a task whose original files are in one.
      output: where a single file of predictions goes if this name has an ending; else the folder of all.
      task: another one that the run predicts for, "ax" of an MNLI run.
      columns: of one's own table; None: those that the run was trained with.
      step: of the checkpoint; None: that which `load` takes.
      batch_size: examples at a time; it decides about memory and speed.
    Returns:
      The names of the files.
    Raises:
      FileNotFoundError: the run or the source is missing.
      FileExistsError: there is something in the folder.
      InputError: the run is not fine-tuned, or the source is not of its task.
    """
    check_output(output)
    if Path(output).resolve() == Path(source).resolve():
        raise InputError(f"{output} is what is predicted for: name another --output")
    files = predicted_files(read_trained(run, step, task), source, columns, batch_size)
    write_predictions(output, files)
    return list(files)


def predicted_files(
    trained: Trained, source: PathLike, columns: Columns | None = None, batch_size: int = 32
) -> dict[str, str]:
    """The texts of the files that `predict` writes, by their names; arguments are the same."""
    task = trained.task
    files: dict[str, str] = {}
    for origin, records in _records(trained, source, columns).items():
        files |= task.files(origin, records, trained.predictions(records, batch_size))
    return files


def _records(trained: Trained, source: PathLike, columns: Columns | None) -> dict[PathLike, Sequence[Any]]:
    """The records to predict for, by the file or the set that they are of."""
    task, folder = trained.task, os.fspath(source)
    if task.sets is not None and tf.io.gfile.isdir(folder) and not task.sets.is_set(folder):
        found = task.read_sets(folder, task.sets.test)
        return {f"{folder}/{name}": records for name, records in found.items()}
    columns = (columns or read_columns(trained.entries)) if task.needs_columns else None
    return {source: task.read(source, False, columns)}


def submit(runs: Sequence[PathLike], glue: PathLike, output: PathLike, batch_size: int = 32) -> None:
    """Writes the zip file that GLUE's server takes: predictions of a run of each task, and of MNLI's for AX.

    Args:
      runs: directories of fine-tuned runs, one of each task.
      glue: the folder that holds the folders of all tasks, by the names that GLUE gives them.
      output: the zip file.
      batch_size: examples at a time.
    Raises: as `predict` does; InputError where a task is missing or there are two runs of one.
    """
    of_task: dict[str, PathLike] = {}
    for run in runs:
        name = run_task(read_task(run))
        if name not in GLUE or name in of_task:
            raise InputError(f"{run} is of task={name!r}: name one run of each of {', '.join(GLUE)} but ax")
        of_task[name] = run
    if missing := [name for name in GLUE if name not in of_task and name != "ax"]:
        raise InputError(
            f"{output}: the server takes predictions for all tasks at once: name a run of "
            f"{', '.join(missing)}, too"
        )
    check_output(output)
    files: dict[str, str] = {}
    for name, run in {**of_task, "ax": of_task["mnli"]}.items():
        files |= predicted_files(
            read_trained(run, asked=name), Path(glue) / GLUE[name].name, None, batch_size
        )
    write_submission(output, files)
