"""Parameter sharing: the blocks that each layer uses, and the numbers of parameters."""

from __future__ import annotations

from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


class BlockScope(NamedTuple):
    """Identifies a block's parameters by Google's variable scope `group_<group>/inner_group_<inner>`."""

    group: int
    inner: int

    def scope(self) -> str:
        """The variable scope, without the leading `bert/`.

        >>> BlockScope(0, 1).scope()
        'encoder/transformer/group_0/inner_group_1'
        """
        return f"encoder/transformer/group_{self.group}/inner_group_{self.inner}"

    def key(self) -> str:
        """The key of the block in an encoder's dicts: a string, since Keras tracks only such dicts."""
        return f"{self.group}_{self.inner}"


class BlockPair(NamedTuple):
    """One application of an attention block and of the feed-forward block after it."""

    attention: BlockScope
    feed_forward: BlockScope


def sharing_plan(config: AlbertConfig) -> list[BlockPair]:
    """The scopes of all L · inner_group_num pairs of blocks, in order. Equal scopes share parameters.

    Source: Lan et al. 2020, §3.1 and Table 4. A layer's group is Google's `int(layer / L * G)`.
    Note: Computed with integers. Google truncates floats, so L=44, G=22, layer 30 gives 14 there, not 15.

    >>> config = AlbertConfig(num_hidden_layers=6, num_hidden_groups=3)
    >>> [pair.attention.group for pair in sharing_plan(config)]
    [0, 0, 1, 1, 2, 2]
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    layer_groups = [layer * groups // layers for layer in range(layers)]
    unshared = list(range(layers))
    attention = layer_groups if config.sharing in ("all", "attention") else unshared
    feed_forward = layer_groups if config.sharing in ("all", "ffn") else unshared
    return [
        BlockPair(BlockScope(attention[layer], inner), BlockScope(feed_forward[layer], inner))
        for layer in range(layers)
        for inner in range(config.inner_group_num)
    ]


def with_num_layers(config: AlbertConfig, num_hidden_layers: int | None) -> AlbertConfig:
    """The config with another number of applications of the shared layers. None: the same config.

    Raises:
      InputError: the other network would need other parameters.
    """
    if num_hidden_layers in (None, config.num_hidden_layers):
        return config
    if config.sharing != "all":
        raise InputError(
            f"num_hidden_layers={num_hidden_layers} has other parameters than the {config.num_hidden_layers} "
            f'layers of the config, of which sharing="{config.sharing}" gives each its own: only with '
            'sharing="all" can depth change'
        )
    return config.replace(num_hidden_layers=num_hidden_layers)


def parameter_count(config: AlbertConfig) -> dict[str, int]:
    """Counts the parameters of an encoder without heads.

    Args:
      config: architecture of the network.
    Returns:
      The numbers of parameters of `embeddings`, `encoder` (with the projection from E to H) and `pooler`, and
      their sum, `total`.
    Source: Lan et al. 2020, Tables 1 and 4.

    Example:
      >>> import albert_tf
      >>> albert_tf.parameter_count(albert_tf.PRESETS["albert_base_v2"])["total"]
      11683584
    """
    width, embedding = config.hidden_size, config.embedding_size
    attention, feed_forward = zip(*sharing_plan(config), strict=True)
    attention_block, feed_forward_block = block_parameters(config)
    positions = config.position_offset + config.max_position_embeddings
    counts = {
        "embeddings": (config.vocab_size + positions + config.type_vocab_size + 2) * embedding,
        "encoder": len(set(attention)) * attention_block
        + len(set(feed_forward)) * feed_forward_block
        + (_dense_parameters(embedding, width) if config.has_projection else 0),
        "pooler": 0 if config.pooler == "none" else _dense_parameters(width, width),
    }
    return {**counts, "total": sum(counts.values())}


def block_parameters(config: AlbertConfig) -> tuple[int, int]:
    """Numbers of parameters of an attention block and of a feed-forward block."""
    width, inner = config.hidden_size, config.intermediate_size
    attention = 4 * _dense_parameters(width, width)
    feed_forward = _dense_parameters(width, inner) + _dense_parameters(inner, width)
    return attention + 2 * width, feed_forward + 2 * width  # 2 * width: the LayerNorm


def head_parameters(config: AlbertConfig) -> int:
    """Number of parameters of the heads of pre-training: masked tokens and, with a pooler, the sentence head.

    >>> head_parameters(AlbertConfig())
    130226
    """
    width, embedding = config.hidden_size, config.embedding_size
    masked_tokens = _dense_parameters(width, embedding) + 2 * embedding + config.vocab_size
    return masked_tokens + (0 if config.pooler == "none" else _dense_parameters(width, 2))


def _dense_parameters(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs
