"""Settings of the computation and of the training loop: when it logs, evaluates and saves."""

from __future__ import annotations

import dataclasses
import re

from albert_tf.constants import AUTO, POLICIES, STRATEGY_NAMES
from albert_tf.errors import InputError
from albert_tf.settings import check_fields, setting

# Most steps between two checks of the losses and of a request to stop.
STEPS_PER_CALL = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComputeConfig:
    """Settings of how a step is computed.

    A resumed run may change all of them. This changes a step by rounding. It also changes dropout: each
    replica and each microbatch draws from its own seed, and XLA draws other numbers from the same seed.

    Args:
      strategy: one device, all GPUs, the hosts of TF_CONFIG, or a TPU. auto chooses by the hardware found.
      tpu: name or address of a TPU; local on its own host.
      precision: number format of the computation.
      accumulate: number of microbatches in a step.
      xla: compile the network with XLA. Default: on GPUs only, where it is several times as fast.
      deterministic: give the same numbers in each run on GPUs, too, which is slower. CPUs always do.
      remat: gradient checkpointing: compute layers again in the backward pass, to save memory.
      data_service: address of a tf.data service that makes the batches, grpc://host:port.
    Raises:
      InputError: a setting is impossible; the message names it.
    """

    strategy: str = setting(AUTO, choices=(AUTO, *STRATEGY_NAMES))
    tpu: str | None = None
    precision: str = setting("float32", choices=POLICIES)
    accumulate: int = setting(1, at_least=1)
    xla: bool | None = None
    deterministic: bool = False
    remat: bool = False
    data_service: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def policy(self) -> str:
        """Name of the Keras dtype policy for the precision."""
        return POLICIES[self.precision]

    def microbatch_rows(self, batch_size: int) -> int:
        """Number of rows in a microbatch, over all devices."""
        return batch_size // self.accumulate

    def check_batch_size(self, batch_size: int, replicas: int) -> None:
        """Raises InputError unless a global batch divides evenly into replicas and microbatches."""
        if batch_size % (replicas * self.accumulate):
            raise InputError(
                f"batch_size={batch_size} cannot be divided among {replicas} replicas times "
                f"accumulate={self.accumulate}: make it a multiple of {replicas * self.accumulate}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """Settings of logging, evaluation and saving. All three also happen at the end of each stage.

    Args:
      log_every: number of steps between two lines of metrics. 0: only at the end.
      eval_every: number of steps between two evaluations. 0: only at the end.
      checkpoint_every: number of steps between two checkpoints. 0: only at the end. Evaluations save, too.
      keep: number of newest checkpoints to keep on disk, besides the one with the best evaluation.
      early_stop: stop after this number of evaluations in a row without an improvement of at least 0.0001;
        if two are equal, the one with the lower loss is better. 0: train to the last step.
      profile: START:STOP, the steps that TensorFlow's profiler traces for TensorBoard.

    Raises:
      InputError: a number is too small, or `profile` is not a range.
    """

    log_every: int = setting(100, at_least=0)
    eval_every: int = setting(1000, at_least=0)
    checkpoint_every: int = setting(1000, at_least=0)
    keep: int = setting(5, at_least=1)
    early_stop: int = setting(0, at_least=0)
    profile: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.early_stop and not self.eval_every:
            raise InputError(f"early_stop={self.early_stop} counts evaluations: set eval_every, which is 0")
        _ = self.profile_steps  # checks `profile`

    @property
    def profile_steps(self) -> range:
        """The steps to profile."""
        if self.profile is None:
            return range(0)
        match = re.fullmatch(r"(\d+):(\d+)", self.profile)
        if not match or not int(match[1]) < int(match[2]):
            raise InputError(
                f"profile={self.profile!r} is not START:STOP with START before STOP, such as 10:20"
            )
        return range(int(match[1]), int(match[2]))

    def steps_until_next(self, step: int, last: int) -> int:
        """Number of steps from `step` to the next event, at most STEPS_PER_CALL. `last` ends the stage."""
        intervals = (self.log_every, self.eval_every, self.checkpoint_every)
        distances = [every - step % every for every in intervals if every]
        borders = (self.profile_steps.start, self.profile_steps.stop)
        distances += [border - step for border in borders if border > step]
        return min(*distances, last - step, STEPS_PER_CALL)
