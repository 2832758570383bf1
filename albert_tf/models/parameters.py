"""Parameter counts of networks, by arithmetic."""

from __future__ import annotations

from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import sharing_plan


def parameter_count(config: AlbertConfig) -> dict[str, int]:
    """Parameters of the encoder, heads left out.

    They are `embeddings`, `encoder` (with the projection from E to H), `pooler`, and their `total`.
    Source: Lan et al. 2020, Tables 1 and 4.

    >>> parameter_count(AlbertConfig())["total"]
    11683584
    """
    width, embedding = config.hidden_size, config.embedding_size
    attention, feed_forward = zip(*sharing_plan(config), strict=True)
    attention_block, feed_forward_block = block_parameters(config)
    counts = {
        "embeddings": config.num_embeddings * embedding + 2 * embedding,
        "encoder": len(set(attention)) * attention_block
        + len(set(feed_forward)) * feed_forward_block
        + (_dense(embedding, width) if config.has_projection else 0),
        "pooler": 0 if config.pooler == "none" else _dense(width, width),
    }
    return {**counts, "total": sum(counts.values())}


def block_parameters(config: AlbertConfig) -> tuple[int, int]:
    """Parameters of an attention block and of a feed-forward block."""
    width, inner = config.hidden_size, config.intermediate_size
    layer_norm = 2 * width
    return 4 * _dense(width, width) + layer_norm, _dense(width, inner) + _dense(inner, width) + layer_norm


def head_parameters(config: AlbertConfig) -> int:
    """Parameters of the heads of pre-training: masked tokens and, where there is a pooler, the sentence's.

    >>> head_parameters(AlbertConfig())
    130226
    """
    width, embedding = config.hidden_size, config.embedding_size
    masked = _dense(width, embedding) + 2 * embedding + config.vocab_size
    return masked + (0 if config.pooler == "none" else _dense(width, 2))


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs
