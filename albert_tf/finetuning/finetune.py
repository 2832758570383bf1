"""Fine-tuning on labelled data: trains one run directory, or several with a seed each."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tf_keras as keras
from absl import logging

from albert_tf.filesystem import write_json
from albert_tf.finetuning.data import PreparedRun, prepare_run, training_losses
from albert_tf.finetuning.evaluation import choose_threshold
from albert_tf.finetuning.finetuned_model import PredictedSets, create_predict_fn
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.reports import data_lines, final_lines, summary
from albert_tf.models.heads import OUTPUT_BIASES
from albert_tf.models.loss_sums import LossFn
from albert_tf.optimization import recipe_optimizer
from albert_tf.pretraining.pretraining_settings import trained_positions
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import BEST_KEY, EVALUATION, SUMMARY_FILE, RunDirectory, StepOrder
from albert_tf.runs.warm_start import warm_start_from
from albert_tf.tasks.formats import Records
from albert_tf.tasks.regression import Regression
from albert_tf.tasks.task import FinetuningTask
from albert_tf.training.metrics_logger import loss_metrics
from albert_tf.training.stages import Training, TrainingStage, build_optimizer, model_options
from albert_tf.training.trainer import LogFunction, train, training_scope


def finetune(
    settings: Finetuning,
    report: LogFunction = logging.info,
    extend: Callable[[LossFn, FinetuningTask], LossFn] = lambda losses, task: losses,
) -> Mapping[str, Records]:
    """Fine-tunes a model, or resumes where an earlier call stopped.

    Args:
      settings: the settings of the run.
      report: called with each log line, about the first weights, the held-out data and the best step.
      extend: adds losses to those of the task, such as the teacher's in distillation. It is called in the
        scope of the run's strategy.
    Returns:
      The records to evaluate on, by the name of their set; empty on a host that is not the chief.
    Raises:
      ValueError: settings contradict each other, the data, or the settings of the existing run.
      FileNotFoundError: an input is missing.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: the process received SIGTERM and saved its state, or another host is lost.
      KeyboardInterrupt: the user pressed Ctrl-C; if training had begun, the state is saved.
    """
    run, compute = settings.output_run(), settings.compute
    with training_scope(run, compute, report) as is_chief, settings.open_start(run) as start:
        prepared = prepare_run(run, settings, start)
        recipe, data, contents = prepared
        assert recipe.steps is not None
        assert recipe.warmup_steps is not None
        read = None if run.steps() else initial_values(settings.init_from, start.run, prepared, report)
        keras.utils.set_random_seed(settings.seed)
        model = build_model(contents.config, contents.task, read=read, **model_options(compute))
        # The pooler stays trainable even if the head does not read it, since checkpoints number the
        # optimizer's variables.
        model.encoder.trainable = settings.freeze is None
        options = {"bias_correction": recipe.bias_correction}
        optimizer = recipe_optimizer("adamw", recipe, recipe.steps, recipe.warmup_steps, **options)
        loss_fn = extend(training_losses(data, recipe), data.task)
        training = Training(
            model=model,
            optimizer=build_optimizer(optimizer, model, compute),
            loss_fn=loss_fn,
            metrics=functools.partial(loss_metrics, loss_weights=loss_fn.loss_weights),
            stages=[
                TrainingStage(
                    end=recipe.steps,
                    batch_size=recipe.batch_size,
                    seq_length=None,
                    batches=functools.partial(data.training_batches, recipe, compute),
                    evaluate=_create_evaluate_fn(prepared, model, settings),
                )
            ],
            seed=settings.seed,
            compute=compute,
            loop=settings.loop_settings(prepared.batches_per_epoch),
            best=StepOrder(contents.task[BEST_KEY]),
            epochs=settings.epochs,
        )
        before = run.recipe.get("steps", recipe.steps)
        extended = f"; extended from {before}" if recipe.steps > before else ""
        train(run, training, contents, report, note=data.note() + extended)
    if not is_chief:
        return {}
    if settings.chooses_threshold(run):
        report(choose_threshold(run.path, data.sets.dev))
    for line in final_lines(RunDirectory(run.path), data.spec, data.sets.dev):
        report(line)
    return data.sets.dev


def initial_values(
    name: object, origin: RunDirectory | None, prepared: PreparedRun, report: LogFunction
) -> Callable[[str], Any]:
    """A function from a variable's name to its first value, None for a random one; also reports the start.

    Args:
      name: name or path of the run or module that the weights come from, for the report.
      origin: the run that the weights come from; None: random weights.
      prepared: the run that begins.
      report: called with each log line.

    Note: the bias of a regression's head starts at the mean of the labels, and not at 0 as in
    google-research/albert: at fine-tuning's learning rates it would take thousands of steps to move that far.
    For the same reason the head of a regression on another scale is left.
    """
    _, data, contents = prepared
    scores = data.task.targets(data.sets.train) if isinstance(data.task, Regression) else None
    warm_start = None
    if origin is not None:
        trained = trained_positions(origin)
        warm_start = warm_start_from(origin, contents.config, contents.task, trained_positions=trained)
        bias = warm_start.read(OUTPUT_BIASES[0])
        if scores is not None and bias is not None and not scores.min() <= bias[0] <= scores.max():
            warm_start = warm_start.without_head()
        new = ", ".join(
            dict.fromkeys(variable.partition("/")[0] for variable in warm_start.newly_initialized)
        )
        report(f"weights from {str(name)!r}" + (f"; new: {new}" if new else ""))
        for line in warm_start.listing():
            logging.vlog(1, line)
    for line in data_lines(prepared):
        report(line)

    def read(variable: str) -> np.ndarray | None:
        value = None if warm_start is None else warm_start.read(variable)
        if value is None and variable in OUTPUT_BIASES and scores is not None:
            shape = [contents.config.num_hidden_layers - 1, 1] if variable.startswith("exits") else [1]
            return np.full(shape, scores.mean(), np.float32)
        return value

    return read


def _create_evaluate_fn(
    prepared: PreparedRun, model: keras.Model, settings: Finetuning
) -> Callable[[], dict[str, float]]:
    """A function that returns the metrics of the evaluation sets, with `loss` if the task has one.

    If the metric that chooses the best step is not among them, it comes from the report of all sets together.
    """
    recipe, data, contents = prepared
    best_metric, xla = contents.task[BEST_KEY].removeprefix(EVALUATION), settings.compute.xla
    rows = settings.compute.microbatch_rows(recipe.batch_size)
    predict = create_predict_fn(data.task, model, rows, data.task.has_evaluation_loss, xla=xla)
    warnings = [
        f"this evaluation gives no {best_metric}, so that its step is not chosen, and early_stop ignores it"
    ]

    def evaluate() -> dict[str, float]:
        predictions = {name: predict(examples) for name, examples in data.dev.items()}
        predicted = PredictedSets(data.spec, data.task, data.sets.dev, predictions)
        metrics = {**predicted.mean_loss(), **predicted.metrics()}
        if best_metric not in metrics:
            reported = predicted.task_report().metrics
            metrics |= {name: reported[name] for name in {best_metric} & reported.keys()}
        if warnings and not math.isfinite(metrics.get(best_metric, math.nan)):
            logging.warning(warnings.pop())  # once a run
        return metrics

    return evaluate


def finetune_runs(
    settings: Finetuning, runs: int, report: LogFunction = logging.info
) -> tuple[RunDirectory, Mapping[str, Records]]:
    """Fine-tunes once for each of several seeds, or resumes where an earlier call stopped.

    Writes a run directory `seed-<n>` in `output` for each seed, and then summary.json.

    Args:
      settings: the settings of all runs; `seed` is the first seed, and the others follow it.
      runs: number of runs.
      report: called with each log line.
    Returns:
      The best run, and its records to evaluate on, by the name of their set. On a host that is not the chief
      some run, and no records.
    Raises:
      InputError: before the first run, if a setting is impossible, or `output` is itself a run. The other
        errors are the errors of `finetune`.
    """
    settings_of_run, dev = settings.with_seeds(runs), {}
    for number, (name, run_settings) in enumerate(settings_of_run.items(), start=1):
        report(f"run {number} of {runs}: {run_settings.output}")
        dev[name] = finetune(run_settings, report)
    if not any(dev.values()):  # on a host that is not the chief
        return RunDirectory(run_settings.output), {}
    comparison = summary({name: RunDirectory(x.output) for name, x in settings_of_run.items()})
    folder = RunDirectory(settings.output)
    write_json(folder.file(SUMMARY_FILE), comparison)
    best = RunDirectory(folder.file(comparison["best_run"]))
    report(f"best of {runs} runs: {best}; {folder.file(SUMMARY_FILE)} compares them")
    return best, dev[comparison["best_run"]]
