"""The start of a run: its newest checkpoint that can be read."""

from __future__ import annotations

import tensorflow as tf
from absl import logging

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.checkpoints.steps import checkpoint_parts, read_checkpoint
from albert_tf.checkpoints.tensor_bundle import DamagedCheckpoint, OtherPipeline
from albert_tf.training.phases import Training, TrainingState
from albert_tf.utils.errors import InputError


def restore(run: RunDirectory, state: TrainingState, training: Training) -> list[int]:
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
        raise InputError(f"{run} is at step {steps[-1]} already: --steps {training.steps} is less than that")
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
    parts = state.parts()
    if "loss_scale" not in there:  # written in another precision
        parts.pop("loss_scale", None)
    read_checkpoint(run, step, **parts)
    if state.saves_iterator and "iterator" in there:
        state.drawn_at.assign(0)
        if "drawn_at" in there:  # older checkpoints do not say
            read_checkpoint(run, step, drawn_at=state.drawn_at)
        state.draw(phase, int(tf.convert_to_tensor(state.drawn_at)))
        try:
            read_checkpoint(run, step, iterator=state.iterator)
            return
        except OtherPipeline:
            logging.warning(
                "ckpt-%s is of a version that made other batches: they are drawn anew from there", step
            )
    state.draw(phase, step)
