"""When the training loop does what."""

from __future__ import annotations

import dataclasses
import re

from albert_tf.errors import InputError

# Updates in one call of the training function at most: enough to hide the cost of a call, few enough to
# answer SIGTERM soon.
STEPS_PER_CALL = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """When the loop does what; what it does at the end it does at the end of each stage of a run.

    Args:
      log_every: updates between two lines of figures, 0: one at the end.
      eval_every: updates between two evaluations, 0: one at the end.
      checkpoint_every: updates between two checkpoints, 0: one at the end. What is evaluated is saved, too.
      keep: checkpoints that stay on disk: so many of the newest, and the one that did best in an evaluation.
      early_stop: evaluations in a row, none of them better than the best before, that end the run; of equal
        ones that with the lower loss is better; 0: it goes on to its last step.
      profile: START:STOP, the updates between which TensorFlow's profiler writes a trace for TensorBoard.

    Raises:
      ValueError: a number is below what it may be, or `profile` is not a range.
    """

    log_every: int = 100
    eval_every: int = 1000
    checkpoint_every: int = 1000
    keep: int = 5
    early_stop: int = 0
    profile: str | None = None

    def __post_init__(self) -> None:
        for name in ("log_every", "eval_every", "checkpoint_every", "keep", "early_stop"):
            least = 1 if name == "keep" else 0
            if getattr(self, name) < least:
                raise InputError(f"{name}={getattr(self, name)} must be at least {least}")
        _ = self.profiled  # which checks itself

    @property
    def profiled(self) -> range:
        """The updates that are profiled."""
        if self.profile is None:
            return range(0)
        match = re.fullmatch(r"(\d+):(\d+)", self.profile)
        if not match or not int(match[1]) < int(match[2]):
            raise InputError(
                f"profile={self.profile!r} is not START:STOP with START before STOP, such as 10:20"
            )
        return range(int(match[1]), int(match[2]))

    def updates_until_next(self, step: int, last: int) -> int:
        """Updates from `step` until something is due, at most STEPS_PER_CALL; `last` ends the run."""
        intervals = (self.log_every, self.eval_every, self.checkpoint_every)
        to_events = [every - step % every for every in intervals if every]
        to_events += [end - step for end in (self.profiled.start, self.profiled.stop) if end > step]
        return min(*to_events, last - step, STEPS_PER_CALL)


def is_due(every: int, step: int, last: int) -> bool:
    """Whether what happens `every` so many updates, and after the last, happens after `step` updates."""
    return step == last or (every > 0 and step % every == 0)
