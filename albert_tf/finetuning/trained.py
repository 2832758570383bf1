"""A fine-tuned run as what answers: its model, its tokenizer and its task."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf.checkpoints.run import VOCABULARY, load, read_task, read_tokenizer, vocabulary_path
from albert_tf.finetuning.entries import run_task
from albert_tf.finetuning.tasks import Task, find_task
from albert_tf.text import PieceTokenizer, Vocabulary


class Trained(NamedTuple):
    """What predictions are made with.

    Attributes:
      task: what is predicted for.
      model: with its weights.
      tokenizer: of the texts that it learnt from.
      entries: what task.json says.
    """

    task: Task
    model: Any
    tokenizer: PieceTokenizer
    entries: dict[str, Any]

    def predictions(self, records: Sequence[Any], batch_size: int = 32) -> list[Any]:
        """A prediction for each record, in their order.

        Args:
          records: of the task, with or without labels.
          batch_size: examples at a time; it decides about memory and speed.
        Raises:
          InputError: a record does not fit the model.
        """
        kind = self.task.kind
        examples = kind.encode(records, self.tokenizer, self.entries, False)
        return kind.predictor(self.model, self.entries, batch_size)(examples)


def read_trained(run: str | os.PathLike[str], step: int | None = None, asked: str | None = None) -> Trained:
    """What predictions are made with, of a fine-tuned run.

    Args:
      run: its directory.
      step: as `load` takes it.
      asked: the task to predict for, where it is not the run's own: "ax" of an MNLI run.
    Raises:
      FileNotFoundError: there is no run, no vocabulary in it, or no such checkpoint.
      InputError: the run is not fine-tuned, or for another task; the vocabulary is not what it was made with;
        a file is damaged.
    """
    entries = read_task(run)
    task = find_task(run_task(entries, asked))
    vocabulary = vocabulary_path(run)
    if vocabulary is None:
        raise FileNotFoundError(f"{Path(run)} has no {VOCABULARY}: copy its vocabulary there")
    tokenizer = PieceTokenizer(Vocabulary.from_file(vocabulary), **read_tokenizer(run))
    return Trained(task, load(run, step), tokenizer, entries)
