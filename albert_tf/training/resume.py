"""The start of a run: its newest checkpoint that can be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.checkpoints.steps import checkpoint_parts, read_checkpoint
from albert_tf.checkpoints.tensor_bundle import DamagedCheckpoint, OtherPipeline
from albert_tf.errors import InputError
from albert_tf.training.phases import Training, TrainingState
from albert_tf.training.strategies import Feed, keeps_iterator
from albert_tf.training.updates import Batch


class Start(NamedTuple):
    """The point where training begins, or goes on."""

    state: TrainingState
    feed: Feed
    iterator: Iterator[Batch]  # of the feed, whether or not it is a part of the state
    damaged: list[int]  # steps of newer checkpoints, which could not be read


def restore(run: RunDirectory, state: TrainingState, training: Training, feed: Feed | None) -> Start:
    """Sets the state to that of the newest checkpoint that can be read, if there is any.

    Training goes on with the very next batch only where the checkpoint holds the input's iterator; else
    batches are drawn anew, with the seed of the step restored.

    Args:
      run: the run directory.
      state: of a run that begins.
      training: what is trained.
      feed: the first batches of a run without checkpoints.
    Returns:
      Where training starts. Damaged checkpoints are as they were: another host may still be reading them.
    Raises:
      ValueError: no checkpoint can be read, or training cannot go on from the newest that can.
    """
    steps = run.steps()
    if steps and steps[-1] > training.steps:
        raise InputError(f"{run} is at step {steps[-1]} already: --steps {training.steps} is less than that")
    is_saved = keeps_iterator(tf.distribute.get_strategy(), training.execution.data_service)
    damaged: list[int] = []
    for step in reversed(steps):
        try:
            feed, iterator = _restored(run, step, state, training, is_saved)
            break
        except DamagedCheckpoint as error:
            damaged.append(step)
            logging.warning("%s", error)
        except InputError as error:
            raise InputError(
                f"{error}: training cannot go on from it. Move it away, or name another --output"
            ) from error
    else:
        if feed is None:
            raise InputError(f"none of the checkpoints in {run} can be read: name another --output")
        iterator = iter(feed.dataset)
    state = dataclasses.replace(state, iterator=iterator if is_saved else None)
    return Start(state, feed, iterator, damaged)


def _restored(
    run: RunDirectory, step: int, state: TrainingState, training: Training, is_saved: bool
) -> tuple[Feed, Iterator[Batch]]:
    """Sets the state to that of one checkpoint, and gives the batches that follow."""
    there = checkpoint_parts(run, step)
    # A loss scale is there in float16 only.
    optional = {"loss_scale"} - there
    read_checkpoint(run, step, **{name: part for name, part in state.parts().items() if name not in optional})
    if is_saved and "iterator" in there:
        state.drawn_at.assign(0)  # as in older checkpoints, which do not say
        if "drawn_at" in there:
            read_checkpoint(run, step, drawn_at=state.drawn_at)
        feed = training.batches(step, int(tf.convert_to_tensor(state.drawn_at)))
        iterator = iter(feed.dataset)
        try:
            read_checkpoint(run, step, iterator=iterator)
            return feed, iterator
        except OtherPipeline:
            logging.warning(
                "ckpt-%s is of a version that made other batches: they are drawn anew from there", step
            )
    state.drawn_at.assign(step)
    feed = training.batches(step, step)
    return feed, iter(feed.dataset)


def check_same_start(steps: Sequence[float], run: RunDirectory) -> None:
    """ValueError if the hosts have restored checkpoints of different steps."""
    if len(set(steps)) > 1:
        raise InputError(
            f"the hosts resume from different steps, {', '.join(f'{step:.0f}' for step in steps)}: --output "
            f"{run} must name one folder that all of them see"
        )
