"""From a model and its phases to a run directory.

A run is one model, one optimizer and one series of checkpoints. Where a phase ends, a checkpoint is written;
the next one draws its batches with a seed of that step, whether or not the run has been stopped there.
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
from albert_tf.filesystem import check_free, write_json
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
    HOST_LOST,
    device_kind,
    hosts_of,
    make_strategy,
    over_hosts,
)
from albert_tf.training.loop import train_phase
from albert_tf.training.stages import Training, TrainingState

LogLine = Callable[[str], None]


@contextlib.contextmanager
def training_scope(run: RunDirectory, execution: ComputeConfig, report: LogLine) -> Iterator[bool]:
    """The scope of the strategy that a run trains under; True on the chief, the host that writes files.

    A line reports that other hosts are waited for.

    Raises:
      FileExistsError: the run directory holds something else.
      ValueError: the execution is impossible here.
      Preempted: another host is lost.
    """
    if execution.deterministic:
        tf.config.experimental.enable_op_determinism()  # of the whole process: TensorFlow cannot undo it
    strategy = make_strategy(execution.strategy, execution.tpu, report)
    is_chief = hosts_of(strategy).is_chief
    if is_chief and not run.is_begun:
        check_free(run.path)
    try:
        with strategy.scope():
            yield is_chief
    except HOST_LOST as error:
        if hosts_of(strategy).num_hosts == 1:
            raise
        raise Preempted(
            f"another host of TF_CONFIG does not answer any more ({type(error).__name__}): type the same "
            f"command again on all of them, it goes on from the newest checkpoint in {run}"
        ) from error


def train(
    run: RunDirectory, training: Training, contents: RunContents, report: LogLine, note: str = ""
) -> None:
    """Trains, or goes on where a former call stopped; to be called in a `training_scope`.

    Args:
      run: its directory.
      training: the model and its phases.
      contents: the files of a new run; recipe.json gets the execution and the versions, too.
      report: called with each line about the start.
      note: what else the line says that a run begins with.
    Raises:
      ValueError: no checkpoint can be read.
      BlockingIOError: another process is using the run.
      TrainingFailed: a loss or a weight is non-finite.
      Preempted: SIGTERM came, and the state is saved.
      KeyboardInterrupt: Ctrl-C came, and the state is saved.
    """
    strategy = tf.distribute.get_strategy()
    is_chief, state = hosts_of(strategy).is_chief, TrainingState(training)
    recipe = {**(contents.recipe or {}), **_machine(training.execution)}
    is_new = not run.steps()
    if is_new:  # whatever is wrong with the text of a new run shows before anything is written
        for phase in training.phases[1:]:
            phase.batches(training.seed)
        state.draw(training.phases[0], 0)
    if is_chief and not run.is_begun:
        run.create(contents._replace(recipe=recipe))
    with run.lock() if is_chief else contextlib.nullcontext():
        if is_chief:
            remove_unfinished_checkpoints(run)
        damaged = [] if is_new else _restored(run, state, training)
        step = state.steps_done
        steps = sorted(set(over_hosts(strategy)(step)))  # which waits until all of them have read
        if len(steps) > 1:
            raise InputError(
                f"the hosts resume from different steps, {steps}: --output {run} must name one folder that "
                "all of them see"
            )
        if is_chief:
            for number in damaged:
                quarantine(run, number)
                logging.warning("ckpt-%s is damaged and set aside; going on from step %s", number, step)
            write_json(run.file(RECIPE_FILE), recipe)
            report(_plan(run, training, step, note))
        current = training.phase_of(step)  # at its end all but its evaluation is done
        for phase in training.phases[training.phases.index(current) :]:
            if phase is not current:
                state.draw(phase, state.steps_done)
                if phase.on_start:
                    phase.on_start()
            train_phase(run, training, phase, state)


def _restored(run: RunDirectory, state: TrainingState, training: Training) -> list[int]:
    """Sets a state to that of the newest checkpoint that can be read; there is one at least.

    Training goes on with the very next batch only where the checkpoint holds the input's iterator; else
    batches are drawn anew, with the seed of the step restored.

    Returns:
      The steps of newer checkpoints, which are damaged; another host may still be reading them.
    Raises:
      ValueError: no checkpoint can be read, or training cannot go on from the newest that can.
    """
    steps, damaged = run.steps(), list[int]()
    if steps[-1] > training.steps:
        asked = training.asked or f"--steps {training.steps}"
        raise InputError(f"{run} is at step {steps[-1]} already: {asked} is less than that")
    for step in reversed(steps):
        try:
            _restore_step(run, step, state, training)
            return damaged
        except DamagedCheckpoint as error:
            damaged.append(step)
            logging.warning("%s", error)
        except InputError as error:
            raise InputError(
                f"{error}: training cannot go on from it. Move it away, or name another --output"
            ) from error
    raise InputError(f"none of the checkpoints in {run} can be read: name another --output")


def _restore_step(run: RunDirectory, step: int, state: TrainingState, training: Training) -> None:
    """Sets a state to that of one checkpoint, and draws the batches that follow."""
    there, phase = checkpoint_parts(run, step), training.phase_of(step)
    state.iterator = None  # of a damaged checkpoint
    state.drawn_at.assign(0)
    parts = {**state.parts(), "drawn_at": state.drawn_at}
    for name in {"loss_scale", "drawn_at"}.difference(there):  # in another precision, without an iterator
        parts.pop(name, None)
    read_checkpoint(run, step, **parts)
    if state.saves_iterator and "iterator" in there:
        state.draw(phase, int(tf.convert_to_tensor(state.drawn_at)))
        try:
            read_checkpoint(run, step, iterator=state.iterator)
            return
        except OtherPipeline:
            logging.warning(
                "ckpt-%s is of a version that made other batches: they are drawn anew from there", step
            )
    state.draw(phase, step)


def _plan(run: RunDirectory, training: Training, step: int, note: str) -> str:
    """The line that a run begins with."""
    if step == training.steps:
        flag = training.asked.partition(" ")[0] or "--steps"
        return f"{run} is at its last step, {step}: no update is left: give a larger {flag} to go on"
    strategy = tf.distribute.get_strategy()
    parameters = sum(variable.shape.num_elements() for variable in training.model.trainable_variables)
    return (
        f"{parameters:,} parameters, {training.execution.precision}, {strategy.num_replicas_in_sync} × "
        f"{device_kind(strategy)}: {'going on' if step else 'training'} from step {step}, to "
        f"{training.steps}{note}"
    )


def _machine(execution: ComputeConfig) -> dict[str, Any]:
    """The entries of recipe.json about the machine; a TPU's address is of no meaning elsewhere."""
    libraries = ("tensorflow", "tensorflow-text", "tf_keras")
    versions = {name: importlib.metadata.version(name) for name in libraries}
    return {
        **{name: value for name, value in dataclasses.asdict(execution).items() if name != "tpu"},
        "replicas": tf.distribute.get_strategy().num_replicas_in_sync,
        "versions": {**versions, "python": sys.version.split()[0]},
    }
