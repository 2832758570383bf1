"""From what is to be trained to a run directory: pre-training and fine-tuning differ in their Job.

A run is one model, one optimizer and one series of checkpoints. Its updates come in one stretch or in
several, which differ in their batches and in what the model is called with. Where one ends, a checkpoint is
written; the next draws its batches with a seed of that step, whether or not the run has been stopped there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.checkpoints.figures import LOWEST_LOSS, Best
from albert_tf.checkpoints.run import RECIPE, create_run
from albert_tf.checkpoints.steps import checkpoint_steps, clean_up
from albert_tf.config import AlbertConfig
from albert_tf.files import check_new, sole_use, write_json
from albert_tf.model.losses import Objective, Term
from albert_tf.training.execution import Execution
from albert_tf.training.loop import FLOAT16_PATIENCE, TrainingState, Work, train
from albert_tf.training.loop_settings import LoopSettings
from albert_tf.training.metrics import term_metrics
from albert_tf.training.preemption import Preempted, stop_at_once
from albert_tf.training.resume import check_same_start, restore, seed_of, set_damaged_aside
from albert_tf.training.strategies import (
    HOST_LOST,
    Feed,
    device_kind,
    hosts_of,
    keeps_iterator,
    make_strategy,
    over_hosts,
)
from albert_tf.training.updates import Batch, Totals, replica_update, training_steps

Evaluate = Callable[[], Mapping[str, float]]

_LIBRARIES = ("tensorflow", "tensorflow-text", "tf_keras")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Stretch:
    """Updates that are all made alike.

    Args:
      end: updates of the run that are done then.
      feed: the batches of a seed, without end.
      evaluation: makes, of the model, the function that evaluates it.
      batch_size: rows of the global batch.
      seq_length: positions of a row; None where they are not all as long.
      arguments: what the model is called with besides, in training.
      shape: what lines of figures say of it.
      begin: what is done to the model first, where another stretch has gone before.
      note: the line that it begins with; none where it is empty.
    """

    end: int
    feed: Callable[[int], Feed]
    evaluation: Callable[[keras.Model], Evaluate]
    batch_size: int
    seq_length: int | None
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    shape: Mapping[str, int] = dataclasses.field(default_factory=dict)
    begin: Callable[[keras.Model], None] = lambda model: None
    note: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What is trained, on what, and how; made for a strategy, whose scope it is made and used in.

    Args:
      config: the network's shape.
      task: what task.json says.
      vocabulary: SentencePiece model.
      tokenizer: what tokenizer.json says.
      record: what recipe.json says of it; the engine adds the machine and the versions.
      model: makes the model; True where a checkpoint is about to be restored, so that its first weights do
        not matter.
      optimizer: makes its optimizer.
      objective: the losses.
      stretches: the updates, of which the last end the run.
      figures: the figures of an objective's summed terms.
      seed: of everything random.
      loop: when to log, evaluate and save.
      best: the figure of an evaluation that tells the best step, among those of the last stretch.
      note: what else the line says that a run begins with.
      more: what a run that is done can be given to go on.
      ending: the lines that tell what the run has when it is done.
    """

    config: AlbertConfig
    task: Mapping[str, Any]
    vocabulary: Path
    tokenizer: Mapping[str, bool]
    record: Mapping[str, Any]
    model: Callable[[bool], keras.Model]
    optimizer: Callable[[], keras.optimizers.Optimizer]
    objective: Objective
    stretches: Sequence[Stretch]
    figures: Callable[[Mapping[str, Term]], dict[str, float]] = term_metrics
    seed: int
    loop: LoopSettings
    best: Best = LOWEST_LOSS
    note: str = ""
    more: str = "more --steps"
    ending: Callable[[], Sequence[str]] = tuple

    @property
    def steps(self) -> int:
        """Updates when the run is done."""
        return self.stretches[-1].end

    def stretch_of(self, step: int) -> Stretch:
        """That of the update that leads to a step; at step 0 the first."""
        return next(stretch for stretch in self.stretches if step <= stretch.end)


def train_run(
    run: Path,
    job: Callable[[tf.distribute.Strategy], Job],
    execution: Execution,
    report: Callable[[str], None] = logging.info,
) -> None:
    """Trains, or goes on where a former call stopped.

    Args:
      run: the run directory; made unless it is there.
      job: what to train. It checks what it can, and that a run that is there is of the same settings.
      execution: how updates are computed.
      report: called with each line about the start and the end.
    Raises:
      FileExistsError: the run directory holds something else.
      ValueError: the execution is impossible here, or no checkpoint can be read.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved; or another host is lost.
      KeyboardInterrupt: Ctrl-C came; once training has begun, the state is saved.
    """
    with stop_at_once(run):
        strategy = make_strategy(execution.strategy, execution.tpu, report)
        try:
            if hosts_of(strategy).is_chief and not (run / RECIPE).exists():
                check_new(run)
            with strategy.scope():
                _train(run, job(strategy), execution, report)
        except HOST_LOST as error:
            if hosts_of(strategy).count == 1:
                raise
            raise Preempted(
                f"another host of TF_CONFIG does not answer any more ({type(error).__name__}): type the same "
                f"command again on all of them, it goes on from the newest checkpoint in {run}"
            ) from error


def _train(run: Path, job: Job, execution: Execution, report: Callable[[str], None]) -> None:
    strategy = tf.distribute.get_strategy()
    hosts, replicas = hosts_of(strategy), strategy.num_replicas_in_sync
    for stretch in job.stretches:
        execution.check_divides(stretch.batch_size, replicas)
    resumed = (run / RECIPE).exists()
    going_on = resumed and bool(checkpoint_steps(run))

    @functools.cache
    def draw(step: int, at: int) -> Feed:
        return job.stretch_of(step).feed(seed_of(job.seed, at))

    if not going_on:  # whatever is wrong with the text of a new run shows here, before anything is written
        for stretch in job.stretches[1:]:
            stretch.feed(job.seed)
        draw(0, 0)
    keras.utils.set_random_seed(job.seed)
    model = job.model(going_on)
    optimizer = built_optimizer(job, model, execution)
    step, drawn_at = (
        tf.Variable(0, dtype=tf.int64, trainable=False, name=name) for name in ("step", "drawn_at")
    )
    state = TrainingState(model=model, optimizer=optimizer, step=step, drawn_at=drawn_at)
    record = {**job.record, **dataclasses.asdict(execution), "replicas": replicas, "versions": _versions()}
    del record["tpu"]  # an address, of no meaning elsewhere
    if hosts.is_chief and not resumed:
        _create(run, job, record)
    with sole_use(run) if hosts.is_chief else contextlib.nullcontext():
        if hosts.is_chief:
            for lost in clean_up(run):
                logging.warning(
                    "ckpt-%s has lost its .index: its orphaned data is renamed to damaged-ckpt-%s", lost, lost
                )
        is_exact = keeps_iterator(strategy, execution.data_service)
        state, feed, iterator, damaged = restore(run, state, job.steps, draw, is_exact)
        every_host = over_hosts(strategy)
        start = int(tf.convert_to_tensor(step))
        check_same_start(every_host(start), run)  # which waits until all of them have read
        if hosts.is_chief:
            set_damaged_aside(run, damaged, start)
            write_json(run / RECIPE, record)
            report(_plan(run, job, execution, model.trainable_variables, start))
        _train_stretches(run, state, (feed, iterator), job, execution, report)
        if hosts.is_chief:
            for line in job.ending():
                report(line)


def _train_stretches(
    run: Path,
    state: TrainingState,
    batches: tuple[Feed, Iterator[Batch]],
    job: Job,
    execution: Execution,
    report: Callable[[str], None],
) -> None:
    """Trains from the state on. Where that is the end of a stretch, all but its evaluation is done."""
    strategy = tf.distribute.get_strategy()
    hosts, every_host = hosts_of(strategy), over_hosts(strategy)
    start = int(tf.convert_to_tensor(state.step))
    first = job.stretches.index(job.stretch_of(start))
    for number, stretch in enumerate(job.stretches[first:]):
        if number > 0:
            state, batches = _next_batches(state, stretch, job.seed)
            stretch.begin(state.model)
        if hosts.is_chief and stretch.note and start < stretch.end:
            report(stretch.note)
        feed, iterator = batches
        work = Work(
            steps=stretch.end,
            last_step=job.steps,
            train_steps=stretch_steps(
                job, stretch, feed, state.model, state.optimizer, state.step, execution
            ),
            evaluate=stretch.evaluation(state.model),
            figures=job.figures,
            examples_per_step=stretch.batch_size,
            seq_length=stretch.seq_length,
            shape=stretch.shape,
            best=job.best._replace(after=max((each.end for each in job.stretches[:-1]), default=-1)),
            patience=FLOAT16_PATIENCE if execution.precision == "float16" else 0,
            is_chief=hosts.is_chief,
            any_host=lambda flag: any(every_host(float(flag))),
        )
        train(run, state, iterator, job.loop, work)


def model_options(execution: Execution) -> dict[str, Any]:
    """What a model is to be built with under the current strategy, by the names of its arguments."""
    return {"dtype": execution.policy, "remat": execution.remat, "fused": is_fused(execution)}


def is_fused(execution: Execution) -> bool:
    """Whether chains of elementwise operations are compiled under the current strategy.

    That was measured on CPUs alone; and where XLA compiles everything, it joins operations itself.
    """
    return device_kind(tf.distribute.get_strategy()) == "CPU" and not execution.xla


def built_optimizer(job: Job, model: keras.Model, execution: Execution) -> keras.optimizers.Optimizer:
    """The optimizer of a model, with its variables."""
    optimizer = job.optimizer()
    if execution.precision == "float16":  # whose smallest gradients would be 0 without a scale
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer


def stretch_steps(
    job: Job,
    stretch: Stretch,
    feed: Feed,
    model: keras.Model,
    optimizer: keras.optimizers.Optimizer,
    step: tf.Variable,
    execution: Execution,
) -> Callable[[Iterator[Batch], tf.Tensor], Totals]:
    """The function that trains in a stretch, as `training_steps` makes it."""
    update = replica_update(
        model,
        optimizer,
        job.objective,
        replicas_per_batch=feed.replicas_per_batch,
        accumulate=execution.accumulate,
        xla=execution.xla,
        arguments=stretch.arguments,
    )
    return training_steps(update, job.objective.names, step, seed=job.seed)


def _next_batches(
    state: TrainingState, stretch: Stretch, seed: int
) -> tuple[TrainingState, tuple[Feed, Iterator[Batch]]]:
    """The batches of a stretch that begins now, and the state that has them."""
    step = int(tf.convert_to_tensor(state.step))
    state.drawn_at.assign(step)
    feed = stretch.feed(seed_of(seed, step))
    iterator = iter(feed.dataset)
    return dataclasses.replace(state, iterator=None if state.iterator is None else iterator), (feed, iterator)


def _create(run: Path, job: Job, record: Mapping[str, Any]) -> None:
    """Makes the run directory; BlockingIOError where another process has just made it."""
    try:
        create_run(run, job.config, job.task, job.vocabulary, job.tokenizer, record)
    except FileExistsError as error:
        if not (run / RECIPE).exists():  # it was there before
            raise
        raise BlockingIOError(
            f"{run} is in use by another process, which has just begun it: wait for its end, or name "
            "another --output"
        ) from error


def _plan(run: Path, job: Job, execution: Execution, variables: Iterable[tf.Variable], start: int) -> str:
    """The line that a run begins with."""
    if start == job.steps:
        return f"{run} is at its last step, {start}: no update is left, unless with {job.more}"
    strategy = tf.distribute.get_strategy()
    parameters = sum(variable.shape.num_elements() for variable in variables)
    return (
        f"{parameters:,} parameters, {execution.precision}, {strategy.num_replicas_in_sync} × "
        f"{device_kind(strategy)}: {'going on' if start else 'training'} from step {start}, to {job.steps}"
        f"{job.note}"
    )


def _versions() -> dict[str, str]:
    """What computes the updates, by name."""
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {**versions, "python": sys.version.split()[0]}
