"""The network: embeddings, groups of shared layers, heads."""
