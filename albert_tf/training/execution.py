"""How updates are computed: by which devices, in which numbers, how much of a batch at a time."""

from __future__ import annotations

import dataclasses

from albert_tf.choices import AUTO, POLICIES, STRATEGY_NAMES
from albert_tf.errors import InputError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """How updates are computed.

    A resumed run may change all of it. That changes updates by rounding, and, where there is dropout, what
    it draws: replicas and microbatches have seeds of their own.

    Args:
      strategy: one device, all GPUs, the hosts of TF_CONFIG, or a TPU (auto: what is there).
      tpu: name or address of a TPU; local on its own host.
      precision: of the computation.
      accumulate: microbatches an update.
      xla: compile forward and backward with XLA.
      remat: gradient checkpointing: compute layers again in the backward pass, for less memory.
      data_service: address of a tf.data service, grpc://host:port, that makes the batches.
    Raises:
      ValueError: a setting is impossible.
    """

    strategy: str = dataclasses.field(default=AUTO, metadata={"choices": (AUTO, *STRATEGY_NAMES)})
    tpu: str | None = None
    precision: str = dataclasses.field(default="float32", metadata={"choices": tuple(POLICIES)})
    accumulate: int = 1
    xla: bool = False
    remat: bool = False
    data_service: str | None = None

    def __post_init__(self) -> None:
        if self.precision not in POLICIES:
            raise InputError(f"precision={self.precision!r} is none of {', '.join(POLICIES)}")
        if self.accumulate < 1:
            raise InputError(f"accumulate={self.accumulate} must be at least 1")

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
