"""A fine-tuned run as what answers: its model, its tokenizer and its task."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging
from tqdm import tqdm

from albert_tf.checkpoints.directory import VOCABULARY
from albert_tf.checkpoints.run import check_finite, load, opened_run
from albert_tf.finetuning.data import dev_sets
from albert_tf.finetuning.entries import read_columns, run_task
from albert_tf.finetuning.outputs import predictor
from albert_tf.finetuning.tasks import Task, find_task, set_metrics
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.examples.coverage import unread
from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from albert_tf.utils.errors import InputError

PathLike = str | os.PathLike[str]
PATIENCE = 2.0  # seconds until a progress bar is shown


class Trained(NamedTuple):
    """Model, tokenizer and task of a fine-tuned run.

    Attributes:
      task: to predict for.
      model: with its weights.
      tokenizer: of the texts that it learnt from.
      entries: content of task.json.
      step: of the weights.
    """

    task: Task
    model: Any
    tokenizer: PieceTokenizer
    entries: dict[str, Any]
    step: int

    def predictions(self, records: Sequence[Any], batch_size: int = 32) -> list[Any]:
        """A prediction for each record, in their order; on a terminal a bar shows the progress of long work.

        Args:
          records: of the task, with or without labels.
          batch_size: examples at a time; it decides about memory and speed.
        Raises:
          InputError: a record does not fit the model.
        """
        return self._predictions(records, batch_size, is_labelled=False)

    def _predictions(self, records: Sequence[Any], batch_size: int, is_labelled: bool) -> list[Any]:
        if batch_size < 1:
            raise InputError(f"batch_size={batch_size} must be at least 1")
        kind = self.task.kind(self.entries)
        examples = kind.encode(records, self.tokenizer, is_labelled)
        for line in unread(examples.rows, kind.seq_length):
            logging.info(line)
        predict = predictor(kind, self.model, batch_size)
        with tqdm(total=len(examples.rows), unit=" examples", disable=None, delay=PATIENCE) as bar:
            return predict(examples, bar.update).predictions

    def metrics(self, sets: Mapping[str, Sequence[Any]], batch_size: int = 32) -> dict[str, float]:
        """The task's metrics.

        Args:
          sets: labelled records by the name of their set.
          batch_size: examples at a time; it decides about memory and speed.
        Raises:
          InputError: a record does not fit the model, such as by a label that it does not know.
        """
        found = {
            name: (records, self._predictions(records, batch_size, is_labelled=True))
            for name, records in sets.items()
        }
        return set_metrics(self.task, found)


def read_trained(run: PathLike, step: int | None = None, asked: str | None = None) -> Trained:
    """Model, tokenizer and task of a fine-tuned run.

    Args:
      run: its directory.
      step: as `load` takes it.
      asked: the task to predict for, where it is not the run's own: "ax" of an MNLI run.
    Raises:
      FileNotFoundError: there is no run, no vocabulary in it, or no such checkpoint.
      InputError: the run is not fine-tuned, or for another task; the vocabulary is not what it was made with;
        a file is damaged; weights are non-finite.
    """
    run = opened_run(run)
    task, vocabulary = find_task(run_task(run.task, asked)), run.vocabulary
    if vocabulary is None:
        raise FileNotFoundError(f"{run} has no {VOCABULARY}: copy its vocabulary there")
    tokenizer = PieceTokenizer(Vocabulary.from_file(vocabulary), **run.tokenizer)
    step = run.default_step() if step is None else step
    model = load(run, step)
    check_finite(model, run, step)
    return Trained(task, model, tokenizer, run.task, step or 0)


def evaluate_trained(
    run: PathLike,
    folder: PathLike | None = None,
    file: PathLike | None = None,
    *,
    columns: Columns | None = None,
    step: int | None = None,
    batch_size: int = 32,
) -> dict[str, float]:
    """Metrics of a fine-tuned run on labelled data of its task.

    Args:
      run: its directory.
      folder: of a task whose original files are in one.
      file: any other; one of the two is given.
      columns: of one's own table; None: those that the run was trained with.
      step: of the checkpoint; None: that which `load` takes.
      batch_size: examples at a time; it decides about memory and speed.
    Returns:
      `step` and `examples`, what was evaluated, and the task's metrics.
    Raises:
      FileNotFoundError: the run or its data is missing.
      InputError: the run is not fine-tuned, or the data is not of its task.
    """
    run = opened_run(run)
    task = find_task(run_task(run.task))
    if task.needs_columns:
        columns = columns or read_columns(run.task)
    sets = dev_sets(task, folder, file, columns)
    trained = read_trained(run, step)
    count = sum(len(records) for records in sets.values())
    return {"step": trained.step, "examples": count, **trained.metrics(sets, batch_size)}
