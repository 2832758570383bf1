"""Trains a model stage by stage, from a new run directory or from its newest checkpoint.

A run is one model, one optimizer and one series of checkpoints. Each stage ends with a checkpoint. The next
stage draws its batches with the seed of that step, whether or not the run was stopped in between.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from absl import logging

from albert_tf.errors import InputError, Preempted
from albert_tf.filesystem import check_new_folder, write_json
from albert_tf.runs.checkpoints import (
    DamagedCheckpoint,
    OtherPipeline,
    checkpoint_parts,
    quarantine,
    read_checkpoint,
    remove_unfinished_checkpoints,
)
from albert_tf.runs.run_directory import RECIPE_FILE, RunContents, RunDirectory
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.distribution import (
    HOST_LOST_ERRORS,
    device_kind,
    get_hosts,
    make_all_gather,
    make_strategy,
)
from albert_tf.training.loop import train_stage
from albert_tf.training.run_settings import format_run_length
from albert_tf.training.stages import Training, TrainingState

LogFunction = Callable[[str], None]


@contextlib.contextmanager
def training_scope(run: RunDirectory, compute: ComputeConfig, report: LogFunction) -> Iterator[bool]:
    """Context manager: the scope of the strategy of a run.

    Args:
      run: run directory.
      compute: the strategy, and whether operations are deterministic.
      report: called with a log line before the wait for the other hosts.
    Yields:
      True on the chief, the host that writes files.
    Raises:
      FileExistsError: the directory holds other files.
      InputError: the strategy is impossible here.
      Preempted: another host is lost.
    """
    if compute.deterministic:
        tf.config.experimental.enable_op_determinism()  # for the whole process: TensorFlow cannot undo it
    strategy = make_strategy(compute.strategy, compute.tpu, report)
    is_chief = get_hosts(strategy).is_chief
    if is_chief and not run.has_recipe:
        check_new_folder(run.path)
    try:
        with strategy.scope():
            yield is_chief
    except HOST_LOST_ERRORS as error:
        if get_hosts(strategy).num_hosts == 1:
            raise
        raise Preempted(
            f"another host of TF_CONFIG does not answer any more ({type(error).__name__}): type the same "
            f"command again on all of them, it goes on from the newest checkpoint in {run}"
        ) from error


def train(
    run: RunDirectory, training: Training, contents: RunContents, report: LogFunction, note: str = ""
) -> None:
    """Trains a model, or resumes its run. Call it in a `training_scope`.

    Args:
      run: run directory.
      training: the model and its stages.
      contents: files of a new run. The settings of the computation and the versions are added to recipe.json.
      report: called with log lines about the start.
      note: end of the log line that a run starts with.
    Raises:
      InputError: no checkpoint can be read.
      BlockingIOError: another process is using the run.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved.
      KeyboardInterrupt: Ctrl-C came, and the state is saved.
    """
    strategy = tf.distribute.get_strategy()
    is_chief, state = get_hosts(strategy).is_chief, TrainingState(training)
    recipe = {**(contents.recipe or {}), **_machine_record(training.compute)}
    is_new = not run.steps()
    if is_new:  # errors in the text of a new run are raised before anything is written
        for stage in training.stages[1:]:
            stage.batches(training.seed)
        state.start_batches(training.stages[0], 0)
    if is_chief and not run.has_recipe:
        run.create(contents._replace(recipe=recipe))
    with run.lock() if is_chief else contextlib.nullcontext():
        if is_new and is_chief and run.steps():
            raise BlockingIOError(f"{run} was trained by another process meanwhile: type the command again")
        if is_chief:
            remove_unfinished_checkpoints(run)
        damaged = [] if is_new else _restore_newest(run, state, training)
        step = state.steps_done
        steps = sorted(set(make_all_gather(strategy)(step)))  # waits until all hosts have read
        if len(steps) > 1:
            raise InputError(
                f"the hosts resume from different steps, {steps}: `output` {run} must name one folder that "
                "all of them see"
            )
        if is_chief:
            for number in damaged:
                quarantine(run, number)
                logging.warning("ckpt-%s is damaged and set aside; going on from step %s", number, step)
            write_json(run.file(RECIPE_FILE), recipe)
            report(_start_line(run, training, step, note))
        current = training.stage_at(step)  # at its end its evaluation may be missing
        for stage in training.stages[training.stages.index(current) :]:
            if stage is not current:
                state.start_batches(stage, state.steps_done)
                if stage.on_start:
                    stage.on_start()
            train_stage(run, training, stage, state)


def _restore_newest(run: RunDirectory, state: TrainingState, training: Training) -> list[int]:
    """Restores a state from the newest checkpoint that is not damaged. The run has at least one checkpoint.

    Training continues with the next batch if the checkpoint holds the input's iterator. Otherwise new batches
    are drawn, with the seed of the restored step.

    Returns:
      Steps of newer checkpoints, which are damaged. Another host may still be reading them.
    Raises:
      InputError: no checkpoint can be read, or training cannot continue from the newest readable one.
    """
    steps, damaged = run.steps(), list[int]()
    if steps[-1] > training.steps:
        length = format_run_length(training.steps, training.epochs)
        raise InputError(f"{run} is at step {steps[-1]} already: {length} is less than that")
    for step in reversed(steps):
        try:
            _restore_step(run, step, state, training)
            return damaged
        except DamagedCheckpoint as error:
            damaged.append(step)
            logging.warning("%s", error)
        except InputError as error:
            raise InputError(
                f"{error}: training cannot go on from it. Move it away, or name another `output`"
            ) from error
    raise InputError(f"none of the checkpoints in {run} can be read: name another `output`")


def _restore_step(run: RunDirectory, step: int, state: TrainingState, training: Training) -> None:
    """Restores a state from a checkpoint, and starts the batches that follow it."""
    stored, stage = checkpoint_parts(run, step), training.stage_at(step)
    state.iterator = None  # a damaged checkpoint may have set one
    state.drawn_at.assign(0)
    parts = {**state.parts(), "drawn_at": state.drawn_at}
    for name in {"loss_scale", "drawn_at"}.difference(stored):  # of another precision, or without an iterator
        parts.pop(name, None)
    read_checkpoint(run, step, **parts)
    if state.saves_iterator and "iterator" in stored:
        state.start_batches(stage, int(tf.convert_to_tensor(state.drawn_at)))
        try:
            read_checkpoint(run, step, iterator=state.iterator)
            return
        except OtherPipeline:
            logging.warning(
                "ckpt-%s is of a version that made other batches: they are drawn anew from there", step
            )
    state.start_batches(stage, step)


def _start_line(run: RunDirectory, training: Training, step: int, note: str) -> str:
    """The log line that a run starts with."""
    if step == training.steps:
        name = "steps" if training.epochs is None else "epochs"
        remedy = f"give a larger `{name}` to go on"
        if run.recipe.get("budget"):  # which has fixed the number of steps
            remedy = f"begin another run with `init_from` {run} to train longer"
        return f"{run} is at its last step, {step}: no step is left: {remedy}"
    strategy = tf.distribute.get_strategy()
    parameters = sum(variable.shape.num_elements() for variable in training.model.trainable_variables)
    return (
        f"{parameters:,} parameters, {training.compute.precision}, {strategy.num_replicas_in_sync} × "
        f"{device_kind(strategy)}: {'going on' if step else 'training'} from step {step}, to "
        f"{training.steps}{note}"
    )


def _machine_record(compute: ComputeConfig) -> dict[str, Any]:
    """The entries of recipe.json about the machine, without the address of a TPU."""
    libraries = ("tensorflow", "tensorflow-text", "tf_keras")
    versions = {name: importlib.metadata.version(name) for name in libraries}
    return {
        **{name: value for name, value in dataclasses.asdict(compute).items() if name != "tpu"},
        "replicas": tf.distribute.get_strategy().num_replicas_in_sync,
        "versions": {**versions, "python": sys.version.split()[0]},
    }
