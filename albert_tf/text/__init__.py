"""Text to token ids, in graph."""
