"""The words that a setting may have, for flags and for the tables that say what each word means.

They stand here, apart from those tables, so that flags and their help need not wait for TensorFlow.
"""

from __future__ import annotations

# Of text that `prepare` reads, and of what it writes.
INPUT_FORMATS = ("lines", "document_per_line", "jsonl")
OUTPUT_FORMATS = ("documents", "examples")

# Of pre-training examples; those of whole sentences, packed, have no sentence objective.
PACKED_FORMATS = FULL_SENTENCES, DOC_SENTENCES = ("full_sentences", "doc_sentences")
SEGMENT_PAIR, SENTENCE_PAIR = ("segment_pair", "sentence_pair")
EXAMPLE_FORMATS = (SEGMENT_PAIR, SENTENCE_PAIR, *PACKED_FORMATS)

# What is read of texts that are longer than an input, and what is taken of the logits of their windows.
LONG = TRUNCATE, HEAD_TAIL, WINDOWS = ("truncate", "head_tail", "windows")
WINDOW_POOLINGS = MEAN_WINDOW, MAX_WINDOW = ("mean", "max")

# What ends a word of plain text for a tagger: spaces alone, or each punctuation mark, too, a word by itself.
WORDS = SPACE_WORDS, PUNCTUATION_WORDS = ("spaces", "punctuation")

# Of checkpoints that are converted to a run directory, and from one.
READ_FORMATS = ("google", "huggingface", "hub")
WRITTEN_FORMATS = ("google", "huggingface")

# What the word embeddings of a new pre-training run begin as.
WORD_EMBEDDINGS = ("random", "cooccurrence")

# What an update is computed in, with Keras' name for it; and where: "auto" takes what is there.
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
AUTO = "auto"
STRATEGY_NAMES = ("one", "mirrored", "multi_worker", "tpu")

# What a trained network computes answers in, and what exported modules hold their variables in.
PRECISIONS = ("float32", "bfloat16")

# What `hub_export --to` writes networks for, each with the name of the network's file.
EXPORT_RUNTIMES = {"openvino": "model.xml", "onnx": "model.onnx", "litert": "model.tflite"}
