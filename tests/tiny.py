"""The smallest network, corpus and vocabulary that still exercise everything."""

from albert_tf import AlbertConfig

TINY = AlbertConfig(
    vocab_size=200,
    embedding_size=16,
    hidden_size=32,
    num_hidden_layers=3,
    num_attention_heads=4,
    intermediate_size=64,
    max_position_embeddings=64,
)
