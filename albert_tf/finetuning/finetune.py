"""Fine-tuning: labelled data and a network in, a run directory out; or several, one for each seed."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tf_keras as keras
from absl import logging

from albert_tf.filesystem import write_json
from albert_tf.finetuning.data import PreparedRun, prepare_run, training_kind
from albert_tf.finetuning.evaluation import choose_threshold
from albert_tf.finetuning.finetuned_model import create_predict_fn, mean_loss
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.reports import data_lines, final_lines, summary
from albert_tf.finetuning.task_table import set_metrics
from albert_tf.models.loss_sums import LossFn
from albert_tf.optimization import recipe_optimizer
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import BEST_KEY, EVALUATION, SUMMARY_FILE, RunDirectory, best_by
from albert_tf.runs.warm_start import warm_start_from
from albert_tf.tasks.formats import Records
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.task import FinetuningTask
from albert_tf.training.metrics_logger import loss_metrics
from albert_tf.training.stages import Training, TrainingStage, build_optimizer, model_options
from albert_tf.training.trainer import LogLine, train, training_scope

OUTPUT_BIASES = ("classifier/output_bias", "exits/output_bias")


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
    run, execution = settings.output_run(), settings.execution
    with training_scope(run, execution, report) as is_chief, settings.open_start(run) as start:
        prepared = prepare_run(run, settings, start)
        recipe, data, contents = prepared
        assert recipe.steps is not None
        assert recipe.warmup_steps is not None
        read = None if run.steps() else first_values(settings.init_from, start.run, prepared, report)
        keras.utils.set_random_seed(settings.seed)
        model = build_model(contents.config, contents.task, read=read, **model_options(execution))
        # Its pooler, too, though no gradient reaches it where the head does not read it: checkpoints number
        # the optimizer's variables.
        model.encoder.trainable = settings.freeze is None
        options = {"bias_correction": recipe.bias_correction}
        optimizer = recipe_optimizer("adamw", recipe, recipe.steps, recipe.warmup_steps, **options)
        objective = objective_of(training_kind(data, recipe))
        training = Training(
            model=model,
            optimizer=build_optimizer(optimizer, model, execution),
            objective=objective,
            metrics=functools.partial(loss_metrics, factors=objective.factors),
            phases=[
                TrainingStage(
                    end=recipe.steps,
                    batch_size=recipe.batch_size,
                    seq_length=None,
                    batches=functools.partial(data.training_batches, recipe, execution),
                    evaluate=_evaluator(prepared, model, settings),
                )
            ],
            seed=settings.seed,
            execution=execution,
            loop=settings.loop_settings(prepared.batches_per_epoch),
            best=best_by(contents.task[BEST_KEY]),
            asked=settings.run_length(recipe.steps),
        )
        before = run.recipe.get("steps", recipe.steps)
        extended = f"; extended from {before}" if recipe.steps > before else ""
        train(run, training, contents, report, note=data.note() + extended)
    if not is_chief:
        return {}
    if settings.chooses_threshold(run):
        report(choose_threshold(run.path, data.sets.dev))
    for line in final_lines(RunDirectory(run.path), data.task, data.sets.dev):
        report(line)
    return data.sets.dev


def first_values(
    name: object, origin: RunDirectory | None, prepared: PreparedRun, report: LogLine
) -> Callable[[str], Any]:
    """The first values of variables by name, None for random ones; what a new run begins with is reported.

    Note: the head of a regression begins at the mean of what it is to learn and not at 0, as in
    google-research/albert: at the rates of fine-tuning its bias would take thousands of updates to get far.
    """
    _, data, contents = prepared
    growth = None if origin is None else warm_start_from(origin, contents.config, contents.task)
    if growth is not None:
        new = ", ".join(dict.fromkeys(variable.partition("/")[0] for variable in growth.fresh))
        report(f"weights from {str(name)!r}" + (f"; new: {new}" if new else ""))
        for line in growth.listing():
            logging.vlog(1, line)
    for line in data_lines(prepared):
        report(line)

    def read(variable: str) -> np.ndarray | None:
        value = None if growth is None else growth.read(variable)
        if value is None and variable in OUTPUT_BIASES and isinstance(data.kind, Regression):
            shape = [contents.config.num_hidden_layers - 1, 1] if variable.startswith("exits") else [1]
            return np.full(shape, data.kind.targets(data.sets.train).mean(), np.float32)
        return value

    return read


def _evaluator(
    prepared: PreparedRun, model: keras.Model, settings: Finetuning
) -> Callable[[], dict[str, float]]:
    """A function to the metrics of the task's sets, and to their `loss` where predictions tell it.

    If none of these tells the best step, that figure of the report of all sets together is added.
    """
    recipe, data, contents = prepared
    task, kind = data.task, data.kind
    best, xla = contents.task[BEST_KEY].removeprefix(EVALUATION), settings.execution.xla
    rows = settings.execution.rows_at_once(recipe.batch_size)
    predict = create_predict_fn(kind, model, rows, kind.has_evaluation_loss, xla=xla)

    def evaluate() -> dict[str, float]:
        found = {name: predict(examples) for name, examples in data.dev.items()}
        predicted = {name: (data.dev[name].records, said.predictions) for name, said in found.items()}
        figures = {**mean_loss(found.values()), **set_metrics(task, kind, predicted)}
        if best not in figures:
            records, predictions = zip(*predicted.values(), strict=True)
            chain = itertools.chain.from_iterable
            reported = kind.report([*chain(records)], [*chain(predictions)]).figures
            figures |= {name: reported[name] for name in {best} & reported.keys()}
        return figures

    return evaluate


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
    each, dev = settings.with_seeds(runs), {}
    for number, (name, made) in enumerate(each.items(), start=1):
        report(f"run {number} of {runs}: {made.output}")
        dev[name] = finetune(made, report)
    found = summary({name: RunDirectory(made.output) for name, made in each.items()})
    folder = RunDirectory(settings.output)
    write_json(folder.file(SUMMARY_FILE), found)
    best = RunDirectory(folder.file(found["best_run"]))
    report(f"best of {runs} runs: {best}; {folder.file(SUMMARY_FILE)} compares them")
    return best, dev[found["best_run"]]
