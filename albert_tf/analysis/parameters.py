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
    width, embedding, inner = config.hidden_size, config.embedding_size, config.intermediate_size
    plan = sharing_plan(config)
    layer_norm = 2 * width
    attention_block = 4 * _dense(width, width) + layer_norm
    feed_forward_block = _dense(width, inner) + _dense(inner, width) + layer_norm
    counts = {
        "embeddings": config.num_embeddings * embedding + 2 * embedding,
        "encoder": len({step.attention for step in plan}) * attention_block
        + len({step.feed_forward for step in plan}) * feed_forward_block
        + (_dense(embedding, width) if config.has_projection else 0),
        "pooler": 0 if config.pooler == "none" else _dense(width, width),
    }
    return {**counts, "total": sum(counts.values())}


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs
