"""Fine-tuning: labelled data and a network in, a run directory out."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.figures import Best
from albert_tf.checkpoints.growth import Growth, grown_from
from albert_tf.checkpoints.models import build_model
from albert_tf.checkpoints.run import BEST_KEY, RECIPE, TASK, VOCABULARY_KEY, read_task
from albert_tf.checkpoints.steps import checkpoint_steps
from albert_tf.config import AlbertConfig
from albert_tf.data.service import served
from albert_tf.errors import InputError
from albert_tf.features import FIRST, LABELS
from albert_tf.files import read_json
from albert_tf.finetuning.data import check_same_data, data_record, described, read_sets
from albert_tf.finetuning.entries import task_entries
from albert_tf.finetuning.outputs import Predicted, predictor
from albert_tf.finetuning.reports import ending, origin_line
from albert_tf.finetuning.settings import ENCODER, Finetuning
from albert_tf.finetuning.tasks import Task, set_metrics
from albert_tf.model.memory import TRAINING, check_memory
from albert_tf.optimization import recipe_optimizer
from albert_tf.origins import Start, opened, start_of_run
from albert_tf.recipes import QuestionSettings
from albert_tf.records import flat
from albert_tf.tasks.examples.batches import batches_per_epoch, task_batches
from albert_tf.tasks.examples.coverage import unread
from albert_tf.tasks.examples.rows import TokenRows
from albert_tf.tasks.kind import Examples, TaskConfig
from albert_tf.text import PieceTokenizer, Vocabulary
from albert_tf.tokenizer_settings import resolved_settings
from albert_tf.training.engine import Evaluate, Job, Stretch, model_options, train_run
from albert_tf.training.metrics import term_metrics
from albert_tf.training.resume import check_same_settings
from albert_tf.training.strategies import Feed, feed

OUTPUT_BIAS = "classifier/output_bias"

# What a resumed run may do differently, besides how its updates are computed.
_CHANGEABLE = (
    *("steps", "epochs", "command"),
    *("data", "train", "eval"),  # of which the content is compared
    *("examples", "data_sha256", "eval_examples", "eval_sha256"),
)

# What older runs, which do not say it, have done.
_UNSAID = {"pooling": FIRST}


def finetune(settings: Finetuning, report: Callable[[str], None] = logging.info) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: what to do.
      report: what is told: where weights come from, what is held out, which step is the best.
    Raises:
      ValueError: settings contradict each other, the data, or those of the run that is there.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    check_output(Path(settings.output))
    with contextlib.ExitStack() as stack:

        def job(strategy: tf.distribute.Strategy) -> Job:
            run = Path(settings.output)
            going_on = (run / RECIPE).exists() and bool(checkpoint_steps(run))
            if going_on:  # what a run has begun with may be gone by then
                start = start_of_run(run, settings.vocabulary, settings.tokenizer)
                if settings.config is not None:  # which is compared with that of the run
                    asked = settings.config.replace(vocab_size=start.config.vocab_size)
                    start = start._replace(config=asked)
            elif settings.init_from is None:
                start = _random_start(settings)
            else:
                origin = opened(settings.init_from, settings.vocabulary, settings.tokenizer)
                start = stack.enter_context(origin)
            return _job(settings, start, strategy, report)

        train_run(Path(settings.output), job, settings.execution, report)


def check_output(run: Path) -> None:
    """InputError where there is a run that fine-tuning has not made: it cannot go on there."""
    if (run / TASK).exists() and not ((run / RECIPE).exists() and BEST_KEY in read_task(run)):
        raise InputError(
            f"{run} holds a run that was not fine-tuned: name another `output`, and this one as `init_from` "
            "to begin with its weights"
        )


def _random_start(settings: Finetuning) -> Start:
    """A network that knows nothing yet."""
    assert settings.config is not None
    assert settings.vocabulary is not None
    vocabulary = Path(settings.vocabulary)
    config = settings.config.replace(vocab_size=len(Vocabulary.from_file(vocabulary)))
    return Start(config, vocabulary, resolved_settings(vocabulary, settings.tokenizer), run=None)


def _job(
    settings: Finetuning, start: Start, strategy: tf.distribute.Strategy, report: Callable[[str], None]
) -> Job:
    run, task = Path(settings.output), settings.entry
    recipe = settings.hyper_parameters(start.config)
    config = recipe.network(start.config)
    check_memory(config, TRAINING)
    settings.execution.check_divides(recipe.batch_size, strategy.num_replicas_in_sync)
    sets = read_sets(settings)
    questions = QuestionSettings(**settings.questions)
    entries = task_entries(
        settings.task, sets.labelled, recipe.seq_length, settings.columns, questions, recipe.pooling
    )
    vocabulary = Vocabulary.from_file(start.vocabulary)
    tokenizer = PieceTokenizer(vocabulary, **start.tokenizer)
    kind = task.kind(entries)
    rows = kind.encode(sets.train, tokenizer, True).rows
    recipe = recipe.in_steps(len(rows))
    if (run / RECIPE).exists() and "warmup_steps" not in settings.recipe:  # which more steps leave as it was
        recipe = recipe.replace(warmup_steps=read_json(run / RECIPE).get("warmup_steps"))
    steps, warmup_steps = recipe.steps, recipe.warmup_steps
    assert steps is not None
    assert warmup_steps is not None
    record = {
        **flat(recipe),
        **settings.record(),
        **data_record(rows, sets.dev),
        VOCABULARY_KEY: vocabulary.fingerprint,
    }
    if (run / RECIPE).exists():
        asked = {**config.to_dict(), **entries, **start.tokenizer, **record}
        check_same_settings(run, asked, _UNSAID, _CHANGEABLE)
        train = settings.data if settings.train is None else settings.train
        assert train is not None
        dev_file = settings.eval or train
        of = {"data_sha256": train, "eval_examples": dev_file, "eval_sha256": dev_file}
        check_same_data(run, record, of)
    facts = [*described(task, sets, entries.get("labels")), *unread(rows, recipe.seq_length)]
    dev = {
        name: kind.encode(records, tokenizer, kind.has_evaluation_loss) for name, records in sets.dev.items()
    }
    lengths = (recipe.seq_length,) if isinstance(strategy, tf.distribute.TPUStrategy) else None

    def training_feed(seed: int) -> Feed:
        def batches(count: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
            dataset = task_batches(rows, recipe.seq_length, count, lengths, seed, input_context=part)
            return served(dataset, settings.execution.data_service)

        return feed(strategy, batches, recipe.batch_size)

    def evaluation(model: keras.Model) -> Evaluate:
        batch_size = settings.execution.rows_at_once(recipe.batch_size)
        predict = predictor(kind, model, batch_size, has_loss=kind.has_evaluation_loss)
        return functools.partial(dev_metrics, task, predict, dev)

    return Job(
        config=config,
        task=entries,
        vocabulary=start.vocabulary,
        tokenizer=start.tokenizer,
        record=record,
        model=functools.partial(_model, settings, config, entries, start, rows, facts, report),
        optimizer=lambda: recipe_optimizer("adamw", recipe, steps, warmup_steps),
        objective=kind.objective(),
        stretches=[
            Stretch(
                end=steps,
                feed=training_feed,
                evaluation=evaluation,
                batch_size=recipe.batch_size,
                seq_length=None,
            )
        ],
        seed=settings.seed,
        loop=settings.loop_settings(batches_per_epoch(rows, recipe.batch_size)),
        best=Best(entries[BEST_KEY], is_highest=True),
        ending=functools.partial(ending, run, task, sets.dev),
        note=f"; {len(rows)} examples" + (f"; held out: {sets.note}" if sets.note else ""),
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
    entries: TaskConfig,
    start: Start,
    rows: TokenRows,
    facts: Sequence[str],
    report: Callable[[str], None],
    going_on: bool,
) -> keras.Model:
    """The model with its first weights; of a new run the facts of its data are told, too."""
    build = functools.partial(build_model, config, entries, **model_options(settings.execution))
    if going_on:
        model = build()
    else:
        growth = None if start.run is None else grown_from(start.run, config, entries)
        model = build(read=_first_values(growth, entries, rows))
        if growth is not None:
            report(origin_line(settings.init_from, growth, config, entries))
            for line in growth.listing():
                logging.vlog(1, line)
        for line in facts:
            report(line)
    # Its pooler, too, though no gradient reaches it where the head does not read it: checkpoints number the
    # optimizer's variables.
    model.encoder.trainable = settings.freeze != ENCODER
    return model


def _first_values(growth: Growth | None, entries: TaskConfig, rows: TokenRows) -> Callable[[str], Any]:
    """What variables begin with, by name; None for those that begin at random.

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
