"""Text to pre-training batches: documents, segment pairs, n-gram masks; the same offline on Beam."""
