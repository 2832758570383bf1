"""Where a run starts: at its newest checkpoint that can be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from albert_tf.checkpoints.steps import checkpoint_parts, checkpoint_steps, read_checkpoint, set_aside
from albert_tf.checkpoints.tensor_bundle import DamagedCheckpoint
from albert_tf.errors import InputError
from albert_tf.training.loop import TrainingState


def restore(
    run: Path, state: TrainingState, last_step: int, is_chief: bool, report: Callable[[str], None]
) -> None:
    """Sets the state to that of the newest checkpoint that can be read, if there is any.

    Damaged ones that are newer are renamed, so that training can write them again.
    """
    steps = checkpoint_steps(run)
    if steps and steps[-1] > last_step:
        raise InputError(f"{run} is at step {steps[-1]} already: --steps {last_step} is less than that")
    damaged = []
    for step in reversed(steps):
        try:
            there = checkpoint_parts(run, step)
            # A loss scale is there in float16 only; an iterator only where it can be saved.
            optional = {"loss_scale", "iterator"} - there
            read_checkpoint(
                run, step, **{name: part for name, part in state.parts().items() if name not in optional}
            )
            break
        except DamagedCheckpoint as error:
            damaged.append(step)
            report(str(error))
        except InputError as error:
            raise InputError(
                f"{error}: training cannot go on from it. Move it away, or name another --output"
            ) from error
    else:
        if damaged:
            raise InputError(f"none of the checkpoints in {run} can be read: name another --output")
    for step in damaged:
        report(f"ckpt-{step} is renamed to damaged-ckpt-{step}; going on from step {int(state.step)}")
        if is_chief:
            set_aside(run, step)


def check_same_start(steps: Sequence[float], run: Path) -> None:
    """ValueError where the hosts have restored checkpoints of different steps."""
    if len(set(steps)) > 1:
        raise InputError(
            f"the hosts resume from different steps, {', '.join(f'{step:.0f}' for step in steps)}: --output "
            f"{run} must name one folder that all of them see"
        )
