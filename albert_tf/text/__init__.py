"""Text to token ids: files of text, vocabularies, tokenizers in graph, packing."""
