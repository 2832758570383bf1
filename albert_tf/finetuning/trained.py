"""A fine-tuned run as what answers: its model, its tokenizer and its task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import logging
from tqdm import tqdm

from albert_tf.checkpoints.run import check_finite, load, opened_run
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.outputs import Predicted, predictor
from albert_tf.finetuning.task_table import TASKS, Task, find_task
from albert_tf.tasks import kind_of
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.datasets.formats import PathLike, Records
from albert_tf.tasks.examples.rows import unread
from albert_tf.tasks.kind import SEQ_LENGTH
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tokenizers.kinds import TextTokenizer, open_tokenizer
from albert_tf.utils.checks import check_range
from albert_tf.utils.choices import POLICIES
from albert_tf.utils.errors import InputError

BAR_DELAY = 2.0  # seconds until a progress bar is shown


class Trained(NamedTuple):
    """Model, tokenizer and task of a fine-tuned run."""

    task: Task  # to predict for
    model: Any
    tokenizer: TextTokenizer
    entries: dict[str, Any]  # of task.json
    step: int  # of the weights
    xla: bool | None = None  # as `Execution` takes it
    patience: int | None = None  # as `predict` takes it

    def predicted(
        self, records: Records, batch_size: int = 32, is_labelled: bool = False, level: int = logging.INFO
    ) -> Predicted:
        """Predictions of records, in their order; a terminal shows the progress of long work.

        With `is_labelled` there are the losses, where predictions tell them, as well.
        Labels that the model does not know are refused then. What is said of long texts has a level of absl.
        """
        check_range("batch_size", batch_size, at_least=1)
        kind = self.task.kind(self.entries)
        examples = kind.encode(records, self.tokenizer, is_labelled)
        for line in unread(examples.rows, kind.seq_length, self.entries.get("long")):
            logging.log(level, line)
        has_loss = is_labelled and kind.has_evaluation_loss
        predict = predictor(kind, self.model, batch_size, has_loss, self.xla, self.patience)
        with tqdm(total=len(examples.rows), unit=" examples", disable=None, delay=BAR_DELAY) as bar:
            return predict(examples, bar.update)


def run_task(entries: Mapping[str, Any], run: PathLike, asked: str | None = None) -> str:
    """The task that a run with these entries of task.json is to predict for: its own, or one asked for.

    A run that names none, such as one converted from Hugging Face, is of own data for its head. An InputError
    names the run if it is not fine-tuned, or for another task.
    """
    there = entries.get("task", _own_task(entries))
    if there not in TASKS and "task" not in entries:
        remedy = f"fine-tune it first (`albert-tf finetune --init_from {os.fspath(run)} …`)"
        raise InputError(f"{os.fspath(run)} is pre-trained only: {remedy}")
    name = str(asked or there)
    if name != there and find_task(name).trained_as != there:
        raise InputError(f"{os.fspath(run)} is fine-tuned for {there} and not for {name}: name a run that is")
    return name


def _own_task(entries: Mapping[str, Any]) -> str | None:
    """The task of own data for the head of a model; None where it has no such head."""
    if entries.get("model") in (None, "encoder"):
        return None
    name = kind_of(entries).name
    questions = "squad-v2.0" if entries.get("answerability") else "squad-v1.1"
    return questions if name == QuestionAnswering.name else name


def _completed(entries: Mapping[str, Any], config: AlbertConfig) -> dict[str, Any]:
    """Entries of task.json with what those of a model from elsewhere lack, as `pipeline` has it."""
    length = min(SEQ_LENGTH, config.max_position_embeddings)
    labels = {"labels": [str(number) for number in range(entries.get("num_labels", 0))]}
    return {"seq_length": length, **labels, **entries}


def columns_of(entries: Mapping[str, Any]) -> Columns | None:
    """The columns of one's own table that task.json names; None of other tasks."""
    return Columns(**entries["columns"]) if "columns" in entries else None


def read_trained(
    run: PathLike,
    step: int | None = None,
    asked: str | None = None,
    xla: bool | None = None,
    precision: str = "float32",
) -> Trained:
    """A fine-tuned run, at a step; None: that which `load` takes.

    `asked` is the task to predict for, where it is not the run's own: "ax" of an MNLI run.

    Raises:
      FileNotFoundError: there is no run, no vocabulary in it, or no such checkpoint.
      InputError: it is not fine-tuned, or for another task; a file is damaged; weights are non-finite.
    """
    run = opened_run(run)
    entries = run.task if "task" in run.task else _completed(run.task, run.config)
    task, vocabulary = find_task(run_task(run.task, run, asked)), run.vocabulary
    if vocabulary is None:
        raise FileNotFoundError(f"{run} has no vocabulary: copy it there")
    tokenizer = open_tokenizer(vocabulary, **run.tokenizer)
    step = run.default_step() if step is None else step
    model = load(run, step, dtype=POLICIES[precision])
    check_finite(model, run, step)
    return Trained(task, model, tokenizer, entries, step or 0, xla)
