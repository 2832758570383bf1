"""The memory that a network's parameters need, by arithmetic: before minutes of building it."""

from __future__ import annotations

import os

from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import sharing_plan
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
    number = matrix_parameters(config)
    needed, memory = 4 * number * copies, physical_memory()
    if needed > memory:
        sizes = ", ".join(f"{name}={getattr(config, name)}" for name in _SIZES)
        copy = " in training" if copies > 1 else ""
        raise InputError(
            f"{number:,} parameters take {needed / 1e9:,.1f} GB{copy}, this machine has {memory / 1e9:,.1f} "
            f"GB of memory: make the network smaller, which has {sizes}"
        )


def matrix_parameters(config: AlbertConfig) -> int:
    """Parameters of all matrices, without vectors such as biases.

    >>> matrix_parameters(AlbertConfig())
    11671808
    """
    attention, feed_forward = (len(set(paths)) for paths in zip(*sharing_plan(config), strict=True))
    width, embedding = config.hidden_size, config.embedding_size
    pooler = 0 if config.pooler == "none" else width**2
    blocks = attention * 4 * width**2 + feed_forward * 2 * width * config.intermediate_size
    return config.num_embeddings * embedding + config.has_projection * embedding * width + blocks + pooler


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
