"""A fine-tuned run that predicts: model, tokenizer and task; records in, predictions out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging
from tqdm import tqdm

from albert_tf.constants import ENCODER_INPUTS, EXAMPLE_NUMBERS, POLICIES, PRECISIONS, Tensors
from albert_tf.errors import InputError, check_choice, check_range
from albert_tf.finetuning.task_table import TASK_SPECS, TaskSpec, find_task_spec, set_metric_name
from albert_tf.io import PathLike
from albert_tf.models.early_exit import call_with_early_exit, check_patience
from albert_tf.models.loss_sums import LossSum
from albert_tf.models.padding import skip_padding
from albert_tf.report import Report
from albert_tf.runs.load_save import load_checked
from albert_tf.runs.run_directory import TASK_FILE, RunDirectory, open_run
from albert_tf.tasks import create_task
from albert_tf.tasks.batches import compiled_lengths, task_batches
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import truncation_report
from albert_tf.tasks.formats import Records
from albert_tf.tasks.question_answering import QuestionAnswering
from albert_tf.tasks.serving import LAYERS
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import SEQ_LENGTH, Examples, FinetuningTask
from albert_tf.text.tokenizer import TextTokenizer
from albert_tf.training.distribution import device_kind, uses_xla
from albert_tf.training.metrics_logger import add_up, loss_metrics
from albert_tf.training.train_step import Batch, compilation_log, divide_among_replicas

# Called after each batch with its number of examples.
Progress = Callable[[int], Any]


class Predictions(NamedTuple):
    """Predictions for examples, and their losses."""

    predictions: list[Any]  # one for each record
    terms: dict[str, LossSum]  # summed over the examples; empty without losses
    layers: np.ndarray | None = None  # number of layers computed for each example, if it may leave early


def lengths_to_compile(seq_length: int, xla: bool | None) -> tuple[int, ...] | None:
    """Lengths to which batches are padded: a few with XLA, one on a TPU (static shapes), otherwise None."""
    if device_kind(tf.distribute.get_strategy()) == "TPU":
        return (seq_length,)
    return compiled_lengths(seq_length) if uses_xla(xla) else None


def create_predict_fn(
    task: FinetuningTask,
    model: Any,
    batch_size: int,
    has_loss: bool = False,
    xla: bool | None = None,
    patience: int | None = None,
) -> Callable[..., Predictions]:
    """Creates `predict(examples, progress)`, which returns the `Predictions` of all records.

    Calls of `predict` share one traced graph.

    Args:
      task: the task.
      model: the fine-tuned model.
      batch_size: number of examples at a time, divided among the replicas of the current strategy.
      has_loss: True to sum up the losses, too; the examples then need labels.
      xla: see `ComputeConfig`.
      patience: for a model with early exits, see `predict`.
    """
    loss_fn = task.loss_fn() if has_loss else None
    strategy = tf.distribute.get_strategy()
    if patience is not None:
        check_patience(patience, model.early_exit, xla)
    is_compiled = uses_xla(xla) and patience is None
    lengths = lengths_to_compile(task.seq_length, xla) if patience is None else None
    before_batch = compilation_log("prediction") if is_compiled else None

    def model_outputs(inputs: Tensors) -> Tensors:
        if patience is not None:
            return call_with_early_exit(model, inputs, patience)
        return model(skip_padding(inputs) if lengths is None else inputs, training=False)

    def compute(rows: Batch) -> tuple[Tensors, dict[str, LossSum]]:
        outputs = model_outputs({name: rows[name] for name in ENCODER_INPUTS})
        layers = {name: outputs[name] for name in outputs.keys() & {LAYERS}}
        terms = {} if loss_fn is None else loss_fn.terms(outputs, rows)
        return {**layers, **task.collect_outputs(outputs, rows)}, terms

    forward = divide_among_replicas(compute, is_compiled)

    def predict(examples: Examples, progress: Progress = lambda count: None) -> Predictions:
        rows = examples.rows
        outputs, terms = dict[str, np.ndarray](), list[dict[str, LossSum]]()
        # Each replica needs the same number of rows of every batch.
        size = batch_size if strategy.num_replicas_in_sync > 1 else min(batch_size, len(rows))
        batches = task_batches(rows, task.seq_length, size, lengths, shuffle=False, repeat=False)
        forward_any_length = forward.get_concrete_function(batches.element_spec)
        for batch in batches:
            if before_batch is not None:
                before_batch(batch)
            batch_outputs, batch_terms = forward_any_length(batch)
            terms.append(tf.nest.map_structure(float, batch_terms))
            numbers = batch[EXAMPLE_NUMBERS].numpy()
            _store_rows(outputs, batch_outputs, numbers, len(rows))
            progress(int(np.count_nonzero(numbers >= 0)))
        return Predictions(task.predictions(examples, outputs), add_up(terms), outputs.get(LAYERS))

    return predict


def _store_rows(stored: dict[str, np.ndarray], outputs: Tensors, numbers: np.ndarray, count: int) -> None:
    """Stores the outputs of a batch by the numbers of its examples; rows that fill it up have the number -1.

    The first batch creates the arrays, with `count` rows.
    """
    is_example = numbers >= 0
    for name, tensor in outputs.items():
        values = tensor.numpy()
        if name not in stored:
            stored[name] = np.empty([count, *values.shape[1:]], values.dtype)
        stored[name][numbers[is_example]] = values[is_example]


class PredictedSets(NamedTuple):
    """Predictions for sets of labelled records, by the names of the sets."""

    spec: TaskSpec
    task: FinetuningTask
    sets: Mapping[str, Records]
    predictions: Mapping[str, Predictions]

    def metrics(self) -> dict[str, float]:
        """Metrics of each set; the metrics of `dev_matched` end in `_matched`."""
        return {
            set_metric_name(metric, name): value
            for name, x in self.predictions.items()
            for metric, value in self.spec.metrics(self.task, self.sets[name], x.predictions).items()
        }

    def mean_loss(self) -> dict[str, float]:
        """The `loss` over all sets; empty if the predictions have no losses."""
        terms = [x.terms for x in self.predictions.values() if x.terms]
        return {"loss": loss_metrics(add_up(terms))["loss"]} if terms else {}

    def task_report(self) -> Report:
        """Further metrics and tables of all sets together."""
        records = [record for name in self.predictions for record in self.sets[name]]
        return self.task.report(
            records, [found for x in self.predictions.values() for found in x.predictions]
        )


BAR_DELAY = 2.0  # seconds until a progress bar is shown


class FinetunedModel(NamedTuple):
    """Model, tokenizer and task of a fine-tuned run."""

    spec: TaskSpec  # of the task that it predicts for
    model: Any
    tokenizer: TextTokenizer
    entries: dict[str, Any]  # of task.json
    step: int  # of the weights
    xla: bool | None = None  # see `ComputeConfig`
    patience: int | None = None  # see `predict`

    @property
    def task(self) -> Any:
        """The task, with the settings of the model."""
        return self.spec.task_class(self.entries)

    def table_columns(self, columns: Columns | None = None) -> Columns | None:
        """The columns of a user's table: the given ones, or those of task.json, which other tasks lack.

        The sign between labels is that of task.json unless another one is given.
        """
        if columns is not None and not self.spec.has_columns and self.spec.task_class is not Tagging:
            raise InputError(f"`text`: of no use to a run of {self.task.name}, leave it out")
        own = Columns(**self.entries["columns"]) if "columns" in self.entries else None
        if columns is None or own is None or columns.label_separator is not None:
            return columns or own
        return columns._replace(label_separator=own.label_separator)

    def predict(
        self, records: Records, batch_size: int = 32, is_labelled: bool = False, level: int = logging.INFO
    ) -> Predictions:
        """Predicts for records, in their order. On a terminal, long work shows a progress bar.

        Args:
          records: of the model's task.
          batch_size: number of examples at a time.
          is_labelled: True to compute the losses, too; labels that the model does not know are an error.
          level: absl's level of the log lines about long texts.
        """
        check_range("batch_size", batch_size, at_least=1)
        task = self.task
        examples = task.encode(records, self.tokenizer, is_labelled)
        for line in truncation_report(examples.rows, task.seq_length, self.entries.get("long")):
            logging.log(level, line)
        has_loss = is_labelled and task.has_evaluation_loss
        predict = create_predict_fn(task, self.model, batch_size, has_loss, self.xla, self.patience)
        with tqdm(total=len(examples.rows), unit=" examples", disable=None, delay=BAR_DELAY) as bar:
            return predict(examples, bar.update)


def finetuned_entries(run: RunDirectory, requested: str | None = None) -> dict[str, Any]:
    """The entries of a fine-tuned run's task.json; `task` is the task to predict for.

    A run that was converted from Hugging Face names no task: the model's head decides, and `seq_length` and
    `labels` are added.

    Args:
      run: the run.
      requested: the task to predict for, if it is not the run's own: "ax" with an MNLI run.
    Raises:
      InputError: the run is not fine-tuned, or for another task.
    """
    check_task_class(run)
    entries = run.task if "task" in run.task else _add_missing_entries(run)
    trained = entries["task"]
    name = requested or trained
    if name != trained and find_task_spec(name).trained_as != trained:
        raise InputError(f"{run} is fine-tuned for {trained} and not for {name}: name a run that is")
    return {**entries, "task": name}


def check_task_class(run: RunDirectory) -> None:
    """Raises InputError if the model that task.json names has no head for its task."""
    if "task" in (entries := run.task):
        task, name = create_task(entries), f"{run.file(TASK_FILE)}: task"
        check_choice(name, entries["task"], TASK_SPECS)
        if TASK_SPECS[entries["task"]].task_class is not type(task):
            problem = f"does not fit model={entries['model']!r}, which is for {task.name}"
            raise InputError(f"{name}={entries['task']!r} {problem}: correct it")


def _add_missing_entries(run: RunDirectory) -> dict[str, Any]:
    """Entries of a converted run's task.json with those that it lacks.

    The task is the one of users' own data that has this model's head.
    """
    entries = run.task
    if entries["model"] in ("encoder", "pretrainer"):
        remedy = f"fine-tune it first (`albert-tf finetune --init_from {run} …`)"
        raise InputError(f"{run} is pre-trained only: {remedy}")
    name = create_task(entries).name
    if name == QuestionAnswering.name:
        name = "squad-v2.0" if entries.get("answerability") else "squad-v1.1"
    length = min(SEQ_LENGTH, run.config.max_position_embeddings)
    labels = {"labels": [str(number) for number in range(entries.get("num_labels", 0))]}
    return {"task": name, "seq_length": length, **labels, **entries}


def load_finetuned(
    run: PathLike,
    step: int | None = None,
    requested: str | None = None,
    xla: bool | None = None,
    precision: str = "float32",
) -> FinetunedModel:
    """Loads a fine-tuned run.

    Args:
      run: the run directory.
      step: training step of the checkpoint. None: as `load` chooses it.
      requested: the task to predict for, if it is not the run's own: "ax" with an MNLI run.
      xla: see `ComputeConfig`.
      precision: of the computation, "float32" or "bfloat16".
    Raises:
      FileNotFoundError: there is no run, no vocabulary in it, or no such checkpoint.
      InputError: it is not fine-tuned, or for another task; a file is damaged; weights are non-finite.
    """
    run = open_run(run)
    entries = finetuned_entries(run, requested)
    step = run.step_or_default(step)
    spec = TASK_SPECS[entries["task"]]
    return FinetunedModel(spec, *load_with_tokenizer(run, step, precision), entries, step or 0, xla)


def load_with_tokenizer(
    run: RunDirectory, step: int | None = None, precision: str = "float32"
) -> tuple[Any, TextTokenizer]:
    """Loads the model of a run and its tokenizer. See `load_finetuned`; weights must be finite."""
    check_choice("precision", precision, PRECISIONS)
    tokenizer = run.load_tokenizer()
    return load_checked(run, step, dtype=POLICIES[precision]), tokenizer
