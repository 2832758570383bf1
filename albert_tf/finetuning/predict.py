"""Files of predictions for files of data: `predict`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import tensorflow as tf
from absl import logging

from albert_tf.errors import InputError, check_range
from albert_tf.finetuning.finetuned_model import FinetunedModel, load_finetuned, run_task
from albert_tf.io import PathLike, check_place
from albert_tf.runs.run_directory import open_run
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.formats import (
    SAME_AS_INPUT,
    Content,
    OutputFormat,
    Records,
    output_format,
    write_predictions,
)
from albert_tf.tasks.glue import GLUE, write_submission
from albert_tf.tasks.multi_label import MultiLabel
from albert_tf.text.files import Paths, distinct_paths


def predict(
    run: PathLike,
    source: Paths,
    output: PathLike | BinaryIO,
    *,
    task: str | None = None,
    columns: Columns | None = None,
    prediction_column: str | None = None,
    score_column: str | None = None,
    probabilities: bool = False,
    top_k: int | None = None,
    step: int | None = None,
    batch_size: int = 32,
    xla: bool | None = None,
    patience: int | None = None,
    precision: str = "float32",
) -> list[Path]:
    """Writes what a fine-tuned run predicts for a file or a folder of its task.

    Args:
      run: its directory.
      source: a file with or without labels, several files or globs, whose predictions are one file, or the
        folder of a task whose original files are in one.
      output: where a single file of predictions goes if this name has an ending, which is then its format
        (of tables .csv, .tsv, .jsonl or .parquet, or .gz of them); else the folder of all. A stream gets a
        single file, in the format of `source`.
      task: another one that the run predicts for, "ax" of an MNLI run.
      columns: of one's own table; None: those that the run was trained with.
      prediction_column: name of the column to add; None: "prediction".
      score_column: name of the other; None: "score".
      probabilities: True for a further column for each label, `probability_<label>`; of classification and
        multi_label, as `top_k`.
      top_k: number of labels, which stand for the prediction, what is decided before the likeliest others,
        and their probabilities for the score.
      step: of the checkpoint; None: that which `load` takes.
      batch_size: examples at a time; it decides about memory and speed.
      xla: as `Execution` takes it.
      patience: of a run with early_exit: an example leaves the network as soon as so many layers in a row
        agree with the one before; None: all layers.
      precision: of the computation, "float32" or "bfloat16".
    Returns:
      The files.
    Raises:
      OSError: the run or the source is missing, or there is something in the folder.
      InputError: the run is not fine-tuned, the source is not of its task, or what is predicted cannot be
        added to it or written under such a name.
    """
    if top_k is not None:
        check_range("top_k", top_k, at_least=1)
    names = {"prediction": prediction_column, "score": score_column}
    form = output_format(output, **names, probabilities=probabilities, top_k=top_k)
    sources = distinct_paths(source)
    if form.file is not None and Path(form.file).resolve() in [Path(path).resolve() for path in sources]:
        raise InputError(f"{form.file} is what is predicted for: name another `output`")
    trained = load_finetuned(run, step, task, xla, precision)._replace(patience=patience)
    files = predict_files(trained, sources, columns, batch_size, form)
    return write_predictions(output, files)


def predict_files(
    trained: FinetunedModel,
    source: Paths,
    columns: Columns | None = None,
    batch_size: int = 32,
    form: OutputFormat = SAME_AS_INPUT,
) -> dict[str, Content]:
    """The texts of the files that `predict` writes, by their names; arguments are the same."""
    data, (folder, *others) = trained.task.format, distinct_paths(source)
    if form.probabilities or form.top_k:
        if not isinstance(trained.kind, Classification | MultiLabel):
            raise InputError(f"`probabilities` and `top_k`: {trained.kind.name} has no labels for them")
        form = form._replace(labels=trained.entries["labels"])
    sets: dict[Any, Records]
    if others and not form.is_file:
        problem = f"{folder} and {len(others)} more: predictions for several files are one file"
        raise InputError(f"{problem}: name it by `output`, or predict for each by itself")
    if data.is_folder and tf.io.gfile.isdir(folder) and not data.is_set(folder):
        sets = {f"{folder}/{name}": x for name, x in data.read_sets(folder, data.test).items()}
    else:
        sources = (folder, *others) if others else folder
        sets = {sources: data.read(sources, False, columns or trained.columns)}
    if len(sets) > 1:
        form.check_folder(folder)
    # All are asked for before anything is predicted: some may not be possible to write.
    files = {origin: data.files(origin, records, form) for origin, records in sets.items()}
    found: dict[str, Content] = {}
    for origin, records in sets.items():
        if not records:
            logging.warning("%s has no rows to predict for", origin)
        found |= files[origin](trained.predicted(records, batch_size).predictions if records else [])
    return found


def submit(
    runs: Sequence[PathLike], glue: PathLike, output: PathLike, batch_size: int = 32, xla: bool | None = None
) -> None:
    """Writes the zip file that GLUE's server takes: predictions of a run of each task, and of MNLI's for AX.

    Args:
      runs: directories of fine-tuned runs, one of each task.
      glue: the folder that holds the folders of all tasks, by the names that GLUE gives them.
      output: the zip file.
      batch_size: as `predict` takes it, whose errors there are as well.
      xla: likewise.
    Raises:
      InputError: a task is missing or there are two runs of one.
    """
    of_task: dict[str, PathLike] = {}
    for run in runs:
        name = run_task(open_run(run).task, run)
        if name not in GLUE or name in of_task:
            raise InputError(f"{run} is of task={name!r}: name one run of each of {', '.join(GLUE)} but ax")
        of_task[name] = run
    if missing := [name for name in GLUE if name not in of_task and name != "ax"]:
        raise InputError(f"{output}: the server takes all tasks: name runs of {', '.join(missing)}, too")
    check_place(Path(output), is_folder=False)
    files: dict[str, Any] = {}
    for name, run in {**of_task, "ax": of_task["mnli"]}.items():
        files |= predict_files(
            load_finetuned(run, asked=name, xla=xla), Path(glue) / GLUE[name].name, None, batch_size
        )
    write_submission(output, files)
