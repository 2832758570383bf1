"""Fine-tuning: labelled data and a network in, a run directory out."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.directory import BEST_KEY, TASK, VOCABULARY_KEY, RunContents, RunDirectory
from albert_tf.checkpoints.growth import Growth, grown_from
from albert_tf.checkpoints.metrics_log import Best
from albert_tf.checkpoints.models import build_model
from albert_tf.checkpoints.storage import exists
from albert_tf.config import AlbertConfig
from albert_tf.conversion.start import Start, opened, start_of_run
from albert_tf.data.service import served
from albert_tf.features import FIRST, LABELS
from albert_tf.finetuning.data import Sets, check_same_data, data_record, described, read_sets
from albert_tf.finetuning.entries import read_columns, task_entries
from albert_tf.finetuning.outputs import Predicted, predictor
from albert_tf.finetuning.recipes import FinetuningRecipe
from albert_tf.finetuning.reports import ending, origin_line
from albert_tf.finetuning.settings import ENCODER, Finetuning
from albert_tf.finetuning.tasks import Task, set_metrics
from albert_tf.models.memory import TRAINING, check_memory
from albert_tf.optimization import recipe_optimizer
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks.examples.batches import batches_per_epoch, task_batches
from albert_tf.tasks.examples.coverage import unread
from albert_tf.tasks.examples.rows import TokenRows
from albert_tf.tasks.kind import Examples, FinetunedKind, TaskConfig
from albert_tf.tokenizer_settings import resolved_settings
from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from albert_tf.training.metrics import term_metrics
from albert_tf.training.phases import Phase, Training, built_optimizer, model_options
from albert_tf.training.strategies import Feed, feed, hosts_of
from albert_tf.training.trainer import Report, train, training_scope
from albert_tf.utils.errors import InputError
from albert_tf.utils.records import flat

OUTPUT_BIAS = "classifier/output_bias"

# What older runs, which do not say it, have done.
_UNSAID = {"pooling": FIRST}


def finetune(settings: Finetuning, report: Report = logging.info) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: the settings of the run.
      report: called with lines: where weights come from, what is held out, which step is the best.
    Raises:
      ValueError: settings contradict each other, the data, or those of the run that is there.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    run = RunDirectory(settings.output, "output")
    check_output(run)
    with training_scope(run, settings.execution, report) as strategy, _start(run, settings) as start:
        recipe = settings.hyper_parameters(start.config)
        config = recipe.network(start.config)
        check_memory(config, TRAINING)
        settings.execution.check_divides(recipe.batch_size, strategy.num_replicas_in_sync)
        data = _encoded(settings, start, recipe)
        recipe = recipe.in_steps(len(data.rows))
        if run.is_begun and "warmup_steps" not in settings.recipe:  # which more steps leave as it was
            recipe = recipe.replace(warmup_steps=run.recipe.get("warmup_steps"))
        record = {**flat(recipe), **settings.record(run), **data.record(), VOCABULARY_KEY: data.fingerprint}
        if run.is_begun:
            asked = {**config.to_dict(), **data.entries, **start.tokenizer, **record}
            settings.check_same(run, asked, _UNSAID)
            check_same_data(run, record, settings)
        model = _model(settings, config, start, data, report, is_new=not run.steps())
        train(
            run,
            _training(settings, recipe, data, model, strategy),
            RunContents(config, data.entries, start.vocabulary, start.tokenizer, record),
            report,
            note=f"; {len(data.rows)} examples" + (f"; held out: {data.sets.note}" if data.sets.note else ""),
        )
    if hosts_of(strategy).is_chief:
        for line in ending(run, settings.entry, data.sets.dev):
            report(line)


def check_output(run: RunDirectory) -> None:
    """InputError if there is a run that fine-tuning has not made: it cannot go on there."""
    if exists(run.file(TASK)) and not (run.is_begun and BEST_KEY in run.task):
        raise InputError(
            f"{run} holds a run that was not fine-tuned: name another `output`, and this one as `init_from` "
            "to begin with its weights"
        )


@contextlib.contextmanager
def _start(run: RunDirectory, settings: Finetuning) -> Iterator[Start]:
    """The network, the vocabulary and the first weights, which are there as long as the block runs."""
    if run.is_begun and run.steps():  # what a run has begun with may be gone by then
        start = start_of_run(run, settings.vocabulary, settings.tokenizer)
        if settings.config is not None:  # which is compared with that of the run
            start = start._replace(config=settings.config.replace(vocab_size=start.config.vocab_size))
        yield start
    elif settings.init_from is not None:
        with opened(settings.init_from, settings.vocabulary, settings.tokenizer) as start:
            yield start
    else:
        assert settings.config is not None
        assert settings.vocabulary is not None
        vocabulary = Path(settings.vocabulary)
        config = settings.config.replace(vocab_size=len(Vocabulary.from_file(vocabulary)))
        yield Start(config, vocabulary, resolved_settings(vocabulary, settings.tokenizer), run=None)


class _Data(NamedTuple):
    """The examples of a run, and what task.json says of a model that learns them."""

    task: Task
    kind: FinetunedKind
    sets: Sets
    entries: TaskConfig
    fingerprint: str  # of the vocabulary
    rows: TokenRows  # to train on
    dev: Mapping[str, Examples]  # to evaluate on, by the name of their set

    def record(self) -> dict[str, Any]:
        """The entries of recipe.json."""
        return data_record(self.rows, self.sets.dev)

    def facts(self, seq_length: int) -> list[str]:
        """Lines that show a wrong column, or texts that are cut."""
        labels, columns = self.entries.get("labels"), read_columns(self.entries)
        lines = [*described(self.task, self.sets, labels), *unread(self.rows, seq_length)]
        if labels is not None and columns is not None and columns.label in labels:
            lines.append(
                f"the column {columns.label!r} has the name of a label: does the first line name the columns?"
            )
        return lines


def _encoded(settings: Finetuning, start: Start, recipe: FinetuningRecipe) -> _Data:
    """The examples, tokenised."""
    task, sets = settings.entry, read_sets(settings)
    entries = task_entries(
        settings.task,
        sets.labelled,
        recipe.seq_length,
        settings.columns,
        QuestionSettings(**settings.questions),
        recipe.pooling,
        settings.threshold,
    )
    vocabulary = Vocabulary.from_file(start.vocabulary)
    tokenizer = PieceTokenizer(vocabulary, **start.tokenizer)
    kind = task.kind(entries)
    rows = kind.encode(sets.train, tokenizer, True).rows
    dev = {
        name: kind.encode(records, tokenizer, kind.has_evaluation_loss) for name, records in sets.dev.items()
    }
    return _Data(task, kind, sets, entries, vocabulary.fingerprint, rows, dev)


def _training(
    settings: Finetuning,
    recipe: FinetuningRecipe,
    data: _Data,
    model: keras.Model,
    strategy: tf.distribute.Strategy,
) -> Training:
    """The model, its optimizer and its only phase."""
    execution, entries = settings.execution, data.entries
    assert recipe.steps is not None
    assert recipe.warmup_steps is not None
    lengths = (recipe.seq_length,) if isinstance(strategy, tf.distribute.TPUStrategy) else None

    def training_feed(seed: int) -> Feed:
        def batches(count: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
            dataset = task_batches(data.rows, recipe.seq_length, count, lengths, seed, input_context=part)
            return served(dataset, execution.data_service)

        return feed(strategy, batches, recipe.batch_size)

    rows_at_once = execution.rows_at_once(recipe.batch_size)
    predict = predictor(data.kind, model, rows_at_once, has_loss=data.kind.has_evaluation_loss)
    phase = Phase(
        end=recipe.steps,
        batch_size=recipe.batch_size,
        seq_length=None,
        batches=training_feed,
        evaluate=lambda: dev_metrics(data.task, predict, data.dev),
    )
    optimizer = recipe_optimizer("adamw", recipe, recipe.steps, recipe.warmup_steps)
    return Training(
        model=model,
        optimizer=built_optimizer(optimizer, model, execution),
        objective=data.kind.objective(),
        phases=[phase],
        seed=settings.seed,
        execution=execution,
        loop=settings.loop_settings(batches_per_epoch(data.rows, recipe.batch_size)),
        best=Best(entries[BEST_KEY], is_highest=True),
    )


def dev_metrics(
    task: Task, predict: Callable[[Examples], Predicted], dev: Mapping[str, Examples]
) -> dict[str, float]:
    """Metrics of a task's sets together, and their `loss` where the outputs tell it.

    Args:
      task: its entry.
      predict: by its model.
      dev: the examples by the name of their set.
    """
    found = {name: predict(examples) for name, examples in dev.items()}
    metrics = set_metrics(task, {name: (dev[name].records, said.predictions) for name, said in found.items()})
    terms = [said.terms for said in found.values() if said.terms]
    sums = functools.reduce(functools.partial(tf.nest.map_structure, operator.add), terms) if terms else {}
    return {**({"loss": term_metrics(sums)["loss"]} if sums else {}), **metrics}


def _model(
    settings: Finetuning,
    config: AlbertConfig,
    start: Start,
    data: _Data,
    report: Report,
    *,
    is_new: bool,
) -> keras.Model:
    """The model with its first weights; of a new run the facts of its data are told, too."""
    keras.utils.set_random_seed(settings.seed)
    build = functools.partial(build_model, config, data.entries, **model_options(settings.execution))
    if not is_new:
        model = build()
    else:
        growth = None if start.run is None else grown_from(start.run, config, data.entries)
        model = build(read=_first_values(growth, data.entries, data.rows))
        if growth is not None:
            report(origin_line(settings.init_from, growth, config, data.entries))
            for line in growth.listing():
                logging.vlog(1, line)
        for line in data.facts(data.entries["seq_length"]):
            report(line)
    # Its pooler, too, though no gradient reaches it where the head does not read it: checkpoints number the
    # optimizer's variables.
    model.encoder.trainable = settings.freeze != ENCODER
    return model


def _first_values(growth: Growth | None, entries: TaskConfig, rows: TokenRows) -> Callable[[str], Any]:
    """The first values of variables by name; None for those that begin at random.

    Note: the head of a regression begins at the mean of what it is to learn and not at 0, as in
    google-research/albert: at the rates of fine-tuning its bias would take thousands of updates to get far.
    """
    is_regression = entries["model"] == "classifier" and entries["num_labels"] == 1

    def read(name: str) -> np.ndarray | None:
        value = None if growth is None else growth.read(name)
        if value is None and is_regression and name == OUTPUT_BIAS:
            return np.array([rows.features[LABELS].mean()], np.float32)
        return value

    return read
