"""The memory that a network's parameters need, by arithmetic: before minutes of building it."""

from __future__ import annotations

import os

from albert_tf.config import AlbertConfig
from albert_tf.models.parameters import parameter_count
from albert_tf.utils.errors import InputError

# What training holds of each parameter: itself, its gradient, and the optimizer's two running means.
TRAINING = 4

_SIZES = (
    "vocab_size",
    "max_position_embeddings",
    "type_vocab_size",
    "embedding_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
)


def check_memory(config: AlbertConfig, copies: int = 1) -> None:
    """Refuses a network whose parameters alone exceed the memory of this machine.

    Args:
      config: the network's shape.
      copies: numbers held of each parameter, such as TRAINING.
    Raises:
      InputError: they do; it names the sizes.
    """
    number = parameter_count(config)["total"]
    needed, memory = 4 * number * copies, physical_memory()
    if needed > memory:
        sizes = ", ".join(f"{name}={getattr(config, name)}" for name in _SIZES)
        copy = " in training" if copies > 1 else ""
        raise InputError(
            f"{number:,} parameters take {needed / 1e9:,.1f} GB{copy}, this machine has {memory / 1e9:,.1f} "
            f"GB of memory: make the network smaller, which has {sizes}"
        )


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
