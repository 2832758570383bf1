"""Settings of the computation, and of when the loop logs, evaluates and saves."""

from __future__ import annotations

import dataclasses
import re

from albert_tf.constants import AUTO, POLICIES, STRATEGY_NAMES
from albert_tf.errors import InputError, check_choice, check_range

# Updates between two looks at the losses, and at a wish to stop, at most.
STEPS_PER_CALL = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeConfig:
    """Settings of the computation of updates.

    A resumed run may change all of it. That changes updates by rounding, and, where there is dropout, what
    it draws: replicas and microbatches have seeds of their own, and XLA makes other numbers of a seed.

    Args:
      strategy: one device, all GPUs, the hosts of TF_CONFIG, or a TPU (auto: what is there).
      tpu: name or address of a TPU; local on its own host.
      precision: of the computation.
      accumulate: microbatches an update.
      xla: compile with XLA what a device computes; by default on GPUs, where it is several times as fast.
      deterministic: the same numbers each time on GPUs, too, where it costs speed; CPUs give them anyway.
      remat: gradient checkpointing: compute layers again in the backward pass, for less memory.
      data_service: address of a tf.data service, grpc://host:port, that makes the batches.
    Raises:
      ValueError: a setting is impossible.
    """

    strategy: str = dataclasses.field(default=AUTO, metadata={"choices": (AUTO, *STRATEGY_NAMES)})
    tpu: str | None = None
    precision: str = dataclasses.field(default="float32", metadata={"choices": tuple(POLICIES)})
    accumulate: int = 1
    xla: bool | None = None
    deterministic: bool = False
    remat: bool = False
    data_service: str | None = None

    def __post_init__(self) -> None:
        check_choice("precision", self.precision, POLICIES)
        check_range("accumulate", self.accumulate, at_least=1)

    @property
    def policy(self) -> str:
        """Keras' name of the precision."""
        return POLICIES[self.precision]

    def rows_at_once(self, batch_size: int) -> int:
        """Rows of a microbatch over all devices, which is what they can hold."""
        return batch_size // self.accumulate

    def check_divides(self, batch_size: int, replicas: int) -> None:
        """ValueError unless replicas can divide a global batch, and each its part into microbatches."""
        if batch_size % (replicas * self.accumulate):
            raise InputError(
                f"batch_size={batch_size} cannot be divided among {replicas} replicas times "
                f"accumulate={self.accumulate}: make it a multiple of {replicas * self.accumulate}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """Settings of logging, evaluation and saving; all three happen at the end of each stage, too.

    Args:
      log_every: updates between two lines of metrics, 0: one at the end.
      eval_every: updates between two evaluations, 0: one at the end.
      checkpoint_every: updates between two checkpoints, 0: one at the end. What is evaluated is saved, too.
      keep: checkpoints that stay on disk: so many of the newest, and the one that did best in an evaluation.
      early_stop: evaluations in a row, none of them better than the best before by 0.0001, that end the run;
        of equal ones that with the lower loss is better; 0: it goes on to its last step.
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
            check_range(name, getattr(self, name), at_least=1 if name == "keep" else 0)
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
        """Updates from `step` until something is due, at most STEPS_PER_CALL; `last` ends the stage."""
        intervals = (self.log_every, self.eval_every, self.checkpoint_every)
        to_events = [every - step % every for every in intervals if every]
        to_events += [end - step for end in (self.profiled.start, self.profiled.stop) if end > step]
        return min(*to_events, last - step, STEPS_PER_CALL)


def is_due(every: int, step: int, last: int) -> bool:
    """True if something that happens `every` so many updates, and after the last, happens after `step`."""
    return step == last or (every > 0 and step % every == 0)
