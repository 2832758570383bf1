"""Fine-tuning: labelled data and a network in, a run directory out; or several, one for each seed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.constants import FIRST, PUNCTUATION_WORDS, SPACE_WORDS
from albert_tf.conversion.init_from import InitFrom, open_init_from
from albert_tf.data.dataset import from_data_service
from albert_tf.errors import InputError, check_range
from albert_tf.filesystem import exists, write_json
from albert_tf.finetuning.data import (
    EncodedSplits,
    check_same_data,
    encode_splits,
    read_splits,
    training_kind,
)
from albert_tf.finetuning.evaluation import choose_threshold
from albert_tf.finetuning.finetuned_model import Predictions, create_predict_fn, lengths_to_compile, mean_loss
from albert_tf.finetuning.finetuning_recipes import EvaluationSettings, FinetuningRecipe
from albert_tf.finetuning.finetuning_settings import AUTO_THRESHOLD, FROZEN_ENCODER, Finetuning
from albert_tf.finetuning.reports import best_figures, describe_data, final_lines, glued_words
from albert_tf.finetuning.task_table import set_metrics, task_entries
from albert_tf.models.loss_sums import LossFn
from albert_tf.models.memory import TRAINING, check_memory
from albert_tf.optimization import recipe_optimizer
from albert_tf.recipes import QuestionSettings
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import (
    BEST_KEY,
    CHOSEN,
    SEED_PREFIX,
    SUMMARY_FILE,
    TASK_FILE,
    RunContents,
    RunDirectory,
    best_by,
    rank,
)
from albert_tf.runs.warm_start import warm_start_from
from albert_tf.settings import defaults, flatten_record
from albert_tf.tasks.batches import batches_per_epoch, task_batches
from albert_tf.tasks.examples import scores, truncation_report
from albert_tf.tasks.formats import Records
from albert_tf.tasks.multi_label import THRESHOLD
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.tagging import Tagging
from albert_tf.tasks.task import Examples, FinetuningTask
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import resolve_settings
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.distribution import DistributedBatches, distribute_batches, hosts_of
from albert_tf.training.metrics_logger import loss_metrics
from albert_tf.training.stages import Training, TrainingStage, build_optimizer, model_options
from albert_tf.training.trainer import LogLine, train, training_scope

OUTPUT_BIASES = ("classifier/output_bias", "exits/output_bias")

# What older runs, which do not say it, have done.
_UNSAID = {**defaults(FinetuningRecipe), **defaults(EvaluationSettings), "words": SPACE_WORDS}


def finetune(
    settings: Finetuning,
    report: LogLine = logging.info,
    objective_of: Callable[[FinetuningTask], LossFn] = FinetuningTask.objective,
) -> Mapping[str, Records]:
    """Trains, or goes on where a former call stopped.

    Args:
      settings: the settings of the run.
      report: called with lines: where weights come from, what is held out, which step is the best.
      objective_of: the losses of a kind of task; it is called in the scope of the run's strategy.
    Returns:
      The records to evaluate on, by the name of their set; none on a host that is not the chief.
    Raises:
      ValueError: settings contradict each other, the data, or those of the run that is there.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    run, execution = RunDirectory(settings.output, "output"), settings.execution
    check_output(run)
    with training_scope(run, execution, report) as strategy, _start(run, settings) as start:
        recipe, data, contents = plan_line(run, settings, start)
        assert recipe.steps is not None
        assert recipe.warmup_steps is not None
        kind = training_kind(data, recipe)
        read = None if run.steps() else _first_values(settings.init_from, start.run, contents, data, report)
        keras.utils.set_random_seed(settings.seed)
        model = build_model(contents.config, contents.task, read=read, **model_options(execution))
        # Its pooler, too, though no gradient reaches it where the head does not read it: checkpoints number
        # the optimizer's variables.
        model.encoder.trainable = settings.freeze != FROZEN_ENCODER
        optimizer = recipe_optimizer("adamw", recipe, recipe.steps, recipe.warmup_steps)
        objective = objective_of(kind)
        training = Training(
            model=model,
            optimizer=build_optimizer(optimizer, model, execution),
            objective=objective,
            metrics=functools.partial(loss_metrics, factors=objective.factors),
            phases=[_phase(recipe, data, model, execution, contents.task[BEST_KEY].removeprefix("eval_"))],
            seed=settings.seed,
            execution=execution,
            loop=settings.loop_settings(batches_per_epoch(data.rows, recipe.batch_size)),
            best=best_by(contents.task[BEST_KEY]),
            asked=_asked(settings, recipe.steps),
        )
        held_out = f"; held out: {data.sets.held_out}" if data.sets.held_out else ""
        before = run.recipe.get("steps") if run.is_begun else None
        if before is not None and recipe.steps > before and hosts_of(strategy).is_chief:
            report(f"extended from {before} to {recipe.steps} updates")
        windows = f" in {len(data.rows)} windows" if len(data.rows) > len(data.sets.train) else ""
        train(run, training, contents, report, note=f"; {len(data.sets.train)} examples{windows}{held_out}")
    if not hosts_of(strategy).is_chief:
        return {}
    if _chooses(run, settings):
        report(choose_threshold(run.path, data.sets.dev))
    for line in final_lines(RunDirectory(run.path), data.task, data.sets.dev):
        report(line)
    return data.sets.dev


def check_output(run: RunDirectory) -> None:
    """InputError if there is a run that fine-tuning has not made: it cannot go on there."""
    if exists(run.file(TASK_FILE)) and not (run.is_begun and BEST_KEY in run.task):
        raise InputError(f"{run} was not fine-tuned: name another `output`, and this one as `init_from`")


@contextlib.contextmanager
def _start(run: RunDirectory, settings: Finetuning) -> Iterator[InitFrom]:
    """The network, the vocabulary and the first weights, which are there as long as the block runs."""
    # What a run has begun with may be gone by then.
    origin = run.path if run.is_begun and run.steps() else settings.init_from
    vocabulary, tokenizer, config = settings.vocabulary, settings.tokenizer, settings.config
    if origin is not None:
        with open_init_from(origin, vocabulary, tokenizer) as start:
            if config is not None:  # which is compared with that of the run
                start = start._replace(config=config.replace(vocab_size=start.config.vocab_size))
            if (layers := settings.num_hidden_layers) is not None:
                if origin is settings.init_from:  # else compared with that of the run, too
                    most, remedy = start.config.num_hidden_layers, f"{origin} has no more layers"
                    check_range("num_hidden_layers", layers, at_most=most, remedy=remedy)
                start = start._replace(config=start.config.replace(num_hidden_layers=layers))
            yield start
        return
    assert config is not None
    assert vocabulary is not None
    config = config.replace(vocab_size=len(open_tokenizer(vocabulary).vocabulary))
    yield InitFrom(config, Path(vocabulary), resolve_settings(vocabulary, tokenizer), run=None)


def plan_line(
    run: RunDirectory, settings: Finetuning, start: InitFrom
) -> tuple[FinetuningRecipe, EncodedSplits, RunContents]:
    """All that a run needs: read, tokenised, and compared with the run that is there; nothing is written."""
    task, recipe = settings.entry, settings.hyper_parameters(start.config)
    config, questions = recipe.network(start.config), QuestionSettings(**settings.questions)
    if task.kind.is_pooled and recipe.pooling == FIRST:  # whose head reads the pooled output
        config = config.with_pooler()
    check_memory(config, TRAINING)
    settings.execution.check_divides(recipe.batch_size, tf.distribute.get_strategy().num_replicas_in_sync)
    evaluated = EvaluationSettings(**settings.evaluation)
    files = settings.data, settings.train, settings.eval
    sets = read_splits(task, *files, settings.columns, evaluated.eval_share)
    # One that is chosen at the end is not that of the evaluations before.
    threshold = THRESHOLD if _chooses(run, settings) else settings.threshold
    assert not isinstance(threshold, str)
    exits: dict[str, Any] = {"early_exit": True} if recipe.early_exit else {}
    if recipe.early_exit and task.kind is Regression:
        if recipe.exit_threshold is None:
            recipe = recipe.replace(exit_threshold=float(np.std(scores(sets.train)) / 10))
        exits["exit_threshold"] = recipe.exit_threshold
    entries_of_texts = {**recipe.long_texts(questions.doc_stride).entries(), **exits}
    if task.kind is Tagging:  # older runs do not say
        learned = run.task.get("words", SPACE_WORDS) if run.is_begun else PUNCTUATION_WORDS
        entries_of_texts["words"] = settings.words or learned
    asked = settings.columns, questions, recipe.pooling, threshold, evaluated.best_by, entries_of_texts
    entries = task_entries(settings.task, sets.labelled, recipe.seq_length, *asked)
    if evaluated.best_by == "auc" and len(entries.get("labels", "01")) != 2:
        raise InputError(f"best_by='auc' is of two labels, and there are {len(entries['labels'])}")
    data = encode_splits(task, entries, sets, start, settings.sample_weight)
    recipe = recipe.in_steps(len(data.rows))
    if run.is_begun and "warmup_steps" not in settings.recipe:  # which more steps leave as it was
        recipe = recipe.replace(warmup_steps=_warmup_there(run, recipe, _asked(settings, recipe.steps)))
    record = {**flatten_record(recipe), **settings.record(run), **data.record()}
    if run.is_begun:
        begun = {**config.to_dict(), **entries, **start.tokenizer, **record}
        is_free = False
        if _chooses(run, settings):  # which also a run can that had the default until now
            begun["threshold"], there = AUTO_THRESHOLD, run.task.get("threshold", THRESHOLD)
            is_free = CHOSEN in run.recipe or there == THRESHOLD
        settings.check_same(run, begun, _UNSAID, ["threshold"] if is_free else [])
        record |= {name: run.recipe[name] for name in {CHOSEN} & run.recipe.keys()}
        check_same_data(run, record)
    return recipe, data, RunContents(config, entries, start.vocabulary, start.tokenizer, record)


def _chooses(run: RunDirectory, settings: Finetuning) -> bool:
    """True if a threshold is chosen at the end: it is asked for, or a former call has chosen one."""
    has_chosen = settings.threshold is None and run.is_begun and CHOSEN in run.recipe
    return settings.threshold == AUTO_THRESHOLD or has_chosen


def _asked(settings: Finetuning, steps: int | None) -> str:
    """The length of a run as it is asked for."""
    epochs = settings.hyper_parameters(settings.config).epochs
    return f"--steps {steps}" if epochs is None else f"--epochs {epochs:g} ({steps} updates)"


def _warmup_there(run: RunDirectory, recipe: FinetuningRecipe, asked: str) -> int | None:
    """The warm-up that a run was begun with; InputError if the steps are fewer than that."""
    warmup_steps, steps = run.recipe.get("warmup_steps"), recipe.steps
    if warmup_steps is not None and steps is not None and steps < warmup_steps:
        raise InputError(
            f"{run} has warmup_steps={warmup_steps}, more than {asked}: give more, or another --output"
        )
    return warmup_steps


def _first_values(
    name: object, origin: RunDirectory | None, contents: RunContents, data: EncodedSplits, report: LogLine
) -> Callable[[str], Any]:
    """The first values of variables by name, None for random ones; what a new run begins with is reported.

    Note: the head of a regression begins at the mean of what it is to learn and not at 0, as in
    google-research/albert: at the rates of fine-tuning its bias would take thousands of updates to get far.
    """
    growth = None if origin is None else warm_start_from(origin, contents.config, contents.task)
    if growth is not None:
        new = ", ".join(dict.fromkeys(variable.partition("/")[0] for variable in growth.fresh))
        report(f"weights from {str(name)!r}" + (f"; new: {new}" if new else ""))
        for line in growth.listing():
            logging.vlog(1, line)
    for line in (
        *describe_data(data.task, data.sets),
        *glued_words(data.kind, data.sets.train),
        *truncation_report(data.rows, data.kind.seq_length, contents.task.get("long")),
    ):
        report(line)

    def read(variable: str) -> np.ndarray | None:
        value = None if growth is None else growth.read(variable)
        if value is None and variable in OUTPUT_BIASES and isinstance(data.kind, Regression):
            shape = [contents.config.num_hidden_layers - 1, 1] if variable.startswith("exits") else [1]
            return np.full(shape, data.kind.targets(data.sets.train).mean(), np.float32)
        return value

    return read


def _phase(
    recipe: FinetuningRecipe, data: EncodedSplits, model: keras.Model, execution: ComputeConfig, metric: str
) -> TrainingStage:
    """All updates of a run, whose best step is told by a metric."""
    assert recipe.steps is not None
    strategy = tf.distribute.get_strategy()
    lengths = lengths_to_compile(recipe.seq_length, execution.xla)

    def training_feed(seed: int) -> DistributedBatches:
        def batches(count: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
            dataset = task_batches(data.rows, recipe.seq_length, count, lengths, seed, input_context=part)
            return from_data_service(dataset, execution.data_service)

        return distribute_batches(strategy, batches, recipe.batch_size)

    has_loss = data.kind.has_evaluation_loss
    rows_at_once = execution.rows_at_once(recipe.batch_size)
    predict = create_predict_fn(data.kind, model, rows_at_once, has_loss, xla=execution.xla)
    return TrainingStage(
        end=recipe.steps,
        batch_size=recipe.batch_size,
        seq_length=None,
        batches=training_feed,
        evaluate=lambda: dev_metrics(data, predict, metric),
    )


def dev_metrics(
    data: EncodedSplits, predict: Callable[[Examples], Predictions], metric: str
) -> dict[str, float]:
    """Metrics of a task's sets by a model's predictions, and their `loss` where these tell it.

    A `metric` that is none of them is that of the report of all sets together.
    """
    found = {name: predict(examples) for name, examples in data.dev.items()}
    predicted = {name: (data.dev[name].records, said.predictions) for name, said in found.items()}
    figures = {**mean_loss(found.values()), **set_metrics(data.task, data.kind, predicted)}
    if metric not in figures:
        records, predictions = (
            list(itertools.chain(*part)) for part in zip(*predicted.values(), strict=True)
        )
        reported = data.kind.report(records, predictions).figures
        figures |= {name: reported[name] for name in {metric} & reported.keys()}
    return figures


def finetune_runs(
    settings: Finetuning, runs: int, report: LogLine = logging.info
) -> tuple[RunDirectory, Mapping[str, Records]]:
    """Trains once for each of several seeds, or goes on where a former call stopped.

    The settings are those of all, and their `seed` is the first. Of each seed `output` gets a run directory
    `seed-<n>`, and after the last one summary.json.

    Returns:
      The best run, and the records to evaluate on, as `finetune` has them.
    Raises:
      InputError: before the first one, if settings are impossible, or the folder is a run itself.
    """
    check_range("runs", runs, at_least=1)
    folder = RunDirectory(settings.output, "output")
    if exists(folder.file(TASK_FILE)):
        raise InputError(f"{folder} is a single run: name another --output for several")
    # All are made and looked at before the first one trains: a seed may be too large.
    each = {
        f"{SEED_PREFIX}{seed}": dataclasses.replace(
            settings, seed=seed, output=folder.file(f"{SEED_PREFIX}{seed}")
        )
        for seed in range(settings.seed, settings.seed + runs)
    }
    for made in each.values():
        check_output(RunDirectory(made.output))
    dev = {}
    for number, (name, made) in enumerate(each.items(), start=1):
        report(f"run {number} of {runs}: {made.output}")
        dev[name] = finetune(made, report)
    found = summary({name: RunDirectory(made.output) for name, made in each.items()})
    write_json(folder.file(SUMMARY_FILE), found)
    best = RunDirectory(folder.file(found["best_run"]))
    report(f"best of {runs} runs: {best}; {folder.file(SUMMARY_FILE)} compares them")
    return best, dev[found["best_run"]]


def summary(runs: Mapping[str, RunDirectory]) -> dict[str, Any]:
    """The content of summary.json: metrics of the best steps of runs by name, mean, median and spread."""
    order = best_by(next(iter(runs.values())).task[BEST_KEY])
    metric, sign = order.metric.removeprefix("eval_"), 1 if order.is_highest else -1
    by_run = {name: best_figures(run) for name, run in runs.items()}
    known: dict[str, list[float]] = {}
    for found in by_run.values():
        for name, value in found.items():
            if name != "step" and value is not None:
                known.setdefault(name, []).append(value)
    ranks = {
        name: rank(sign * value, found.get("loss"))
        for name, found in by_run.items()
        if (value := found.get(metric)) is not None
    }
    best_run = max(ranks, key=ranks.__getitem__, default=next(iter(by_run)))
    return {
        "best_by": metric,
        "best_run": best_run,
        "mean": {name: statistics.fmean(values) for name, values in known.items()},
        "median": {name: statistics.median(values) for name, values in known.items()},
        "best": {name: value for name, value in by_run[best_run].items() if name != "step"},
        "spread": {name: max(values) - min(values) for name, values in known.items()},
        "runs": by_run,
    }
