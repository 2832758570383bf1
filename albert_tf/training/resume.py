"""Where a run starts: at its newest checkpoint that can be read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.checkpoints.run import (
    RECIPE,
    VOCABULARY,
    read_config,
    read_task,
    read_tokenizer,
    vocabulary_path,
)
from albert_tf.checkpoints.steps import checkpoint_parts, checkpoint_steps, read_checkpoint, set_aside
from albert_tf.checkpoints.tensor_bundle import DamagedCheckpoint, OtherPipeline
from albert_tf.errors import InputError
from albert_tf.files import read_json
from albert_tf.training.loop import TrainingState
from albert_tf.training.strategies import Feed
from albert_tf.training.updates import Batch


class Start(NamedTuple):
    """Where training begins, or goes on."""

    state: TrainingState
    feed: Feed
    iterator: Iterator[Batch]  # of the feed, whether or not it is a part of the state
    damaged: list[int]  # steps of newer checkpoints, which could not be read


def restore(
    run: Path,
    state: TrainingState,
    last_step: int,
    draw: Callable[[int, int], Feed],
    keeps_iterator: bool,
) -> Start:
    """Sets the state to that of the newest checkpoint that can be read, if there is any.

    Args:
      run: the run directory.
      state: model, optimizer and step, which are set; it has no iterator yet.
      last_step: updates when the run is done.
      draw: the batches of the update that leads to a step, drawn with the seed of another.
      keeps_iterator: whether checkpoints hold the iterator. Training goes on with the very next batch only
        where the checkpoint holds it, too; else batches are drawn anew, with the seed of the step restored.
    Returns:
      Where training starts. Damaged checkpoints are as they were: another host may still be reading them.
    Raises:
      ValueError: no checkpoint can be read, or training cannot go on from the newest that can.
    """
    steps = checkpoint_steps(run)
    if steps and steps[-1] > last_step:
        raise InputError(f"{run} is at step {steps[-1]} already: --steps {last_step} is less than that")
    damaged: list[int] = []
    for step in reversed(steps):
        try:
            feed, iterator = _restored(run, step, state, draw, keeps_iterator)
            break
        except DamagedCheckpoint as error:
            damaged.append(step)
            logging.warning("%s", error)
        except InputError as error:
            raise InputError(
                f"{error}: training cannot go on from it. Move it away, or name another --output"
            ) from error
    else:
        if damaged:
            raise InputError(f"none of the checkpoints in {run} can be read: name another --output")
        feed = draw(0, 0)
        iterator = iter(feed.dataset)
    state = dataclasses.replace(state, iterator=iterator if keeps_iterator else None)
    return Start(state, feed, iterator, damaged)


def _restored(
    run: Path,
    step: int,
    state: TrainingState,
    draw: Callable[[int, int], Feed],
    keeps_iterator: bool,
) -> tuple[Feed, Iterator[Batch]]:
    """Sets the state to that of one checkpoint, and gives the batches that follow."""
    there = checkpoint_parts(run, step)
    # A loss scale is there in float16 only.
    optional = {"loss_scale"} - there
    read_checkpoint(run, step, **{name: part for name, part in state.parts().items() if name not in optional})
    if keeps_iterator and "iterator" in there:
        state.drawn_at.assign(0)  # as in older checkpoints, which do not say
        if "drawn_at" in there:
            read_checkpoint(run, step, drawn_at=state.drawn_at)
        feed = draw(step, int(tf.convert_to_tensor(state.drawn_at)))
        iterator = iter(feed.dataset)
        try:
            read_checkpoint(run, step, iterator=iterator)
            return feed, iterator
        except OtherPipeline:
            logging.warning(
                "ckpt-%s is of a version that made other batches: they are drawn anew from there", step
            )
    state.drawn_at.assign(step)
    feed = draw(step, step)
    return feed, iter(feed.dataset)


def set_damaged_aside(run: Path, damaged: Sequence[int], step: int) -> None:
    """Renames damaged checkpoints, so that training can write them again; all hosts have read by then.

    Args:
      run: the run directory.
      damaged: their steps.
      step: that training goes on from.
    """
    for number in damaged:
        set_aside(run, number)
        logging.warning("ckpt-%s is renamed to damaged-ckpt-%s; going on from step %s", number, number, step)


def check_same_settings(
    run: Path,
    asked: Mapping[str, Any],
    unsaid: Mapping[str, Any],
    changeable: Collection[str],
) -> None:
    """ValueError, with the fields that differ, unless a run directory is of these settings, and whole.

    Args:
      run: the run directory.
      asked: what config.json, task.json, tokenizer.json and recipe.json are to say, all by name.
      unsaid: what values are that an older version did not write down yet.
      changeable: names of what may differ.
    """
    there = {
        **unsaid,
        **read_config(run).to_dict(),
        **read_task(run),
        **read_tokenizer(run),
        **read_json(run / RECIPE),
    }
    origin = there.get("init_from_sha256")  # runs of older versions do not say: their paths are compared
    is_same_origin = origin is not None and origin == asked.get("init_from_sha256")
    left_out = {*changeable, "init_from_sha256", *(["init_from"] if is_same_origin else [])}
    differing = [
        f"{name} is {there.get(name, 'missing')!r} there and {value!r} here"
        for name, value in asked.items()
        if name not in left_out and there.get(name) != value
    ]
    if differing:
        raise InputError(
            f"{run} is a run with other settings: {'; '.join(differing)}. Name another --output, or "
            "resume with the settings that are there"
        )
    if vocabulary_path(run) is None:
        raise InputError(f"{run / VOCABULARY} is missing: copy the vocabulary there")


def check_same_start(steps: Sequence[float], run: Path) -> None:
    """ValueError where the hosts have restored checkpoints of different steps."""
    if len(set(steps)) > 1:
        raise InputError(
            f"the hosts resume from different steps, {', '.join(f'{step:.0f}' for step in steps)}: --output "
            f"{run} must name one folder that all of them see"
        )


def seed_of(seed: int, step: int) -> int:
    """The seed of the batches from a step on, where no iterator can be restored; at step 0 the run's."""
    return seed if step == 0 else int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) >> 1
