"""The memory that a network's parameters need, by arithmetic: before minutes of building it."""

from __future__ import annotations

import os

from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import sharing_plan
from albert_tf.utils.errors import InputError

# What training holds of each parameter: itself, its gradient, and the optimizer's two running means.
TRAINING = 4

_BYTES = 4  # float32


def check_memory(config: AlbertConfig, copies: int = 1) -> None:
    """Refuses a network whose parameters alone exceed the memory of this machine.

    Args:
      config: the network's shape.
      copies: numbers held of each parameter, such as TRAINING.
    Raises:
      InputError: they do; it names the fields that the largest part of them comes from.
    """
    parts = large_parts(config)
    total, memory = sum(parts.values()), physical_memory()
    if total * _BYTES * copies <= memory:
        return
    fields = max(parts, key=parts.__getitem__)
    values = " and ".join(f"{name}={getattr(config, name)}" for name in fields)
    raise InputError(
        f"{values} make {parts[fields]:,} of {total:,} parameters, which take "
        f"{total * _BYTES * copies / 1e9:,.1f} GB{' in training' if copies > 1 else ''}: this machine has "
        f"{memory / 1e9:,.1f} GB of memory, make them smaller"
    )


def large_parts(config: AlbertConfig) -> dict[tuple[str, ...], int]:
    """Parameters of all matrices, without vectors such as biases, by the fields that decide how many.

    >>> sum(large_parts(AlbertConfig()).values())
    11671808
    """
    plan = sharing_plan(config)
    attention, feed_forward = ({pair[i] for pair in plan} for i in (0, 1))
    # Where blocks are not shared by all layers, there may be too many of them.
    depth = ("num_hidden_layers",) if config.sharing != "all" or config.num_hidden_groups > 1 else ()
    width, inner, embedding = config.hidden_size, config.intermediate_size, config.embedding_size
    return {
        ("vocab_size", "embedding_size"): config.vocab_size * embedding,
        ("max_position_embeddings", "embedding_size"): config.max_position_embeddings * embedding,
        ("type_vocab_size", "embedding_size"): config.type_vocab_size * embedding,
        ("embedding_size", "hidden_size"): embedding * width * config.has_projection,
        (*depth, "hidden_size"): len(attention) * 4 * width**2 + width**2,  # the second is the pooler's
        (*depth, "hidden_size", "intermediate_size"): len(feed_forward) * 2 * width * inner,
    }


def physical_memory() -> int:
    """The memory of this machine, in bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
