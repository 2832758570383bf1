"""Predictions of a fine-tuned run, written to files: `predict`, and `submit` for GLUE."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import tensorflow as tf
from absl import logging

from albert_tf.errors import InputError, make_check
from albert_tf.finetuning.finetuned_model import FinetunedModel, finetuned_entries, load_finetuned
from albert_tf.io import PathLike, check_output_path
from albert_tf.runs.run_directory import open_run
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.formats import (
    SAME_AS_INPUT,
    Content,
    OutputFormat,
    Records,
    parse_output_format,
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
    """Writes the predictions of a fine-tuned run for a file or a folder of its task.

    Args:
      run: the run directory.
      source: a file with or without labels, several files or globs, whose predictions go to one file, or the
        folder with the original files of a task that has one (GLUE, RACE).
      output: a file, if the name has an ending, which decides the format (tables: .csv, .tsv, .jsonl or
        .parquet, or .gz of them); else a folder for all files. A stream gets a single file, in the format of
        `source`.
      task: another task that the run can predict for: "ax" for an MNLI run.
      columns: columns of your own table; None: the columns of the training data.
      prediction_column: name of the column to add with the prediction; None: "prediction".
      score_column: name of the column to add with the score; None: "score".
      probabilities: add a column for each label, `probability_<label>`. Only for classification and
        multi_label, as is `top_k`.
      top_k: write this many labels in place of the prediction, and their probabilities in place of the score:
        first the predicted label, then the likeliest others.
      step: step of the checkpoint; None: the best one.
      batch_size: examples at a time; it affects only memory and speed.
      xla: compile with XLA; None: only on GPUs.
      patience: for a run with early_exit: an example leaves the network as soon as this many layers in a row
        agree with the layer before; None: all layers.
      precision: precision of the computation, "float32" or "bfloat16".
    Returns:
      The paths of the files.
    Raises:
      OSError: the run or the source is missing, or the output folder is not empty.
      InputError: the run is not fine-tuned, the source does not fit its task, or the predictions cannot be
        added to it or written under this name.
    """
    make_check("int | None", at_least=1)("top_k", top_k)
    names = {"prediction": prediction_column, "score": score_column}
    output_format = parse_output_format(output, **names, probabilities=probabilities, top_k=top_k)
    sources = distinct_paths(source)
    if output_format.file is not None and Path(output_format.file).resolve() in [
        Path(path).resolve() for path in sources
    ]:
        raise InputError(f"{output_format.file} is what is predicted for: name another `output`")
    model = load_finetuned(run, step, task, xla, precision)._replace(patience=patience)
    files = predict_files(model, sources, columns, batch_size, output_format)
    return write_predictions(output, files, output_format.is_file)


def predict_files(
    model: FinetunedModel,
    source: Paths,
    columns: Columns | None = None,
    batch_size: int = 32,
    output_format: OutputFormat = SAME_AS_INPUT,
) -> dict[str, Content]:
    """The contents of the files that `predict` writes, by their names. See `predict` for the arguments."""
    data, (folder, *others), columns = model.spec.format, distinct_paths(source), model.table_columns(columns)
    if columns is not None:
        output_format = output_format._replace(label_separator=columns.label_separator)
    if output_format.probabilities or output_format.top_k:
        if not isinstance(model.task, Classification | MultiLabel):
            raise InputError(f"`probabilities` and `top_k`: {model.task.name} has no labels for them")
        output_format = output_format._replace(labels=model.entries["labels"])
    sets: dict[Any, Records]
    if others and not (output_format.is_file or data.writes_folder):
        problem = f"{folder} and {len(others)} more: predictions for several files are one file"
        raise InputError(f"{problem}: name it by `output`, or predict for each by itself")
    if others and data.is_folder and any(map(tf.io.gfile.isdir, (folder, *others))):
        raise InputError(f"{folder} and {len(others)} more: a folder is predicted for by itself: name one")
    if data.is_folder and tf.io.gfile.isdir(folder) and not data.is_split(folder):
        sets = {f"{folder}/{name}": x for name, x in data.read_splits(folder, data.test).items()}
    else:
        sources = (folder, *others) if others else folder
        sets = {sources: data.read(sources, False, columns)}
    if len(sets) > 1:
        output_format.check_folder(folder)
    # Before any prediction, since this raises if predictions for a file cannot be written.
    writers = {origin: data.create_writer(origin, records, output_format) for origin, records in sets.items()}
    contents: dict[str, Content] = {}
    for origin, records in sets.items():
        if not records:
            logging.warning("%s has no rows to predict for", origin)
        contents |= writers[origin](model.predict(records, batch_size).predictions if records else [])
    return contents


def submit(
    runs: Sequence[PathLike], glue: PathLike, output: PathLike, batch_size: int = 32, xla: bool | None = None
) -> None:
    """Writes the zip file for GLUE's server: the predictions of a run for each task; MNLI's run predicts AX.

    Args:
      runs: directories of fine-tuned runs, one for each task.
      glue: folder with the folders of all tasks, under GLUE's names.
      output: the zip file.
      batch_size: examples at a time; it affects only memory and speed.
      xla: compile with XLA; None: only on GPUs.
    Raises:
      OSError: a run or a file of a task is missing.
      InputError: a task has no run or two runs, or a file does not fit its task.
    """
    run_of_task: dict[str, PathLike] = {}
    for run in runs:
        name = finetuned_entries(open_run(run))["task"]
        if name not in GLUE or name in run_of_task:
            raise InputError(f"{run} is of task={name!r}: name one run of each of {', '.join(GLUE)} but ax")
        run_of_task[name] = run
    if missing := [name for name in GLUE if name not in run_of_task and name != "ax"]:
        raise InputError(f"{output}: the server takes all tasks: name runs of {', '.join(missing)}, too")
    check_output_path(Path(output), is_folder=False)
    files: dict[str, Any] = {}
    for name, run in {**run_of_task, "ax": run_of_task["mnli"]}.items():
        files |= predict_files(
            load_finetuned(run, requested=name, xla=xla), Path(glue) / GLUE[name].name, None, batch_size
        )
    write_submission(output, files)
