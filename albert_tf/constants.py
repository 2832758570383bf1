"""The names of tensors and the allowed values of settings. TensorFlow is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import tensorflow as tf

Tensors: TypeAlias = "Mapping[str, tf.Tensor]"

WORD_IDS = "input_word_ids"  # int32 [B, S]
INPUT_MASK = "input_mask"  # int32 [B, S], 1 for tokens and 0 for padding
TYPE_IDS = "input_type_ids"  # int32 [B, S], 0 for the first segment and 1 for the second

MLM_POSITIONS = "masked_lm_positions"  # int32 [B, P], ascending, padded with 0
MLM_IDS = "masked_lm_ids"  # int32 [B, P], the ids of the original tokens
MLM_WEIGHTS = "masked_lm_weights"  # float32 [B, P], 0 for padding

ENCODER_INPUTS = (WORD_IDS, INPUT_MASK, TYPE_IDS)

# int32 [T], ascending: the positions, counted over all rows of a batch, whose hidden states are computed.
TOKEN_POSITIONS = "token_places"

# Inputs of fine-tuning. A row that fills up a batch has a mask of 0.
LABELS = "labels"  # int32 [B], or [B, S] for tagging; below 0: no label; float32 [B] for regression
START_POSITIONS = "start_positions"  # int32 [B], the first token of the answer; 0 if there is no answer
END_POSITIONS = "end_positions"  # int32 [B], the last token of the answer; 0 if there is no answer
IS_IMPOSSIBLE = "is_impossible"  # int32 [B], 1 if these tokens have no answer
WEIGHTS = "weights"  # float32 [B], the weight of each row in the loss; 1 by default
SOFT_WEIGHTS = "soft_weights"  # float32 [B], the same in the loss against a teacher; WEIGHTS by default
EXAMPLE_NUMBERS = "rows"  # int32 [B], the number of the example in its data; -1: a row that is no example

# The names of the labels of each sentence objective, int32 [B]: 0 in order (or the true next segment),
# 1 swapped (or a segment of another document), -1 for a row that fills up the last batch.
SENTENCE_LABELS = {"sop": "sentence_order_labels", "nsp": "next_sentence_labels"}
SENTENCE_OBJECTIVES = (*SENTENCE_LABELS, "none")


# Inputs of a classifier's head: the pooled output, of the first token, or the mean over the states of all
# tokens.
POOLINGS = FIRST, MEAN = ("first", "mean")


def pretraining_spec(
    batch_size: int | None, seq_length: int, max_predictions: int, sentence_objective: str
) -> dict[str, tf.TensorSpec]:
    """The shapes and types of the tensors in a pre-training batch, by name.

    Args:
      batch_size: B; None: unknown.
      seq_length: S, in tokens.
      max_predictions: P, masked tokens.
      sentence_objective: "sop", "nsp" or "none".
    """
    import tensorflow as tf  # here, since code without TensorFlow uses the names above

    tokens, predictions = [batch_size, seq_length], [batch_size, max_predictions]
    shapes = {
        **dict.fromkeys(ENCODER_INPUTS, tokens),
        **dict.fromkeys((MLM_POSITIONS, MLM_IDS, MLM_WEIGHTS), predictions),
    }
    if sentence_objective != "none":
        shapes[SENTENCE_LABELS[sentence_objective]] = [batch_size]
    types = {MLM_WEIGHTS: tf.float32}
    return {name: tf.TensorSpec(shape, types.get(name, tf.int32), name) for name, shape in shapes.items()}


# Formats that `prepare` reads and writes.
INPUT_FORMATS = ("lines", "document_per_line", "jsonl")
OUTPUT_FORMATS = ("documents", "examples")

# Formats of pre-training examples. The packed formats, of whole sentences, have no sentence objective.
PACKED_FORMATS = FULL_SENTENCES, DOC_SENTENCES = ("full_sentences", "doc_sentences")
SEGMENT_PAIR, SENTENCE_PAIR = ("segment_pair", "sentence_pair")
EXAMPLE_FORMATS = (SEGMENT_PAIR, SENTENCE_PAIR, *PACKED_FORMATS)

# The part that is read of a text longer than an input, and how the logits of its windows are combined.
LONG_CHOICES = TRUNCATE, HEAD_TAIL, WINDOWS = ("truncate", "head_tail", "windows")
WINDOW_POOLINGS = MEAN_WINDOW, MAX_WINDOW = ("mean", "max")

# How a tagger splits plain text into words: at spaces, or also at punctuation marks, which are then words.
WORDS_CHOICES = SPACE_WORDS, PUNCTUATION_WORDS = ("spaces", "punctuation")

# Formats of checkpoints that are converted to a run directory, and from one.
READ_FORMATS = ("google", "huggingface", "hub")
WRITTEN_FORMATS = ("google", "huggingface")

# Initial values of the word embeddings of a pre-training run.
WORD_EMBEDDINGS = ("random", "cooccurrence")

# Precisions of training, each with the name of Keras' policy, and strategies; "auto": by the devices found.
POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
AUTO = "auto"
STRATEGY_NAMES = ("one", "mirrored", "multi_worker", "tpu")

# Precisions of predictions, and of the variables in exported modules.
PRECISIONS = ("float32", "bfloat16")

# Runtimes that `hub_export --to` writes networks for, each with the name of the network's file.
EXPORT_RUNTIMES = {"openvino": "model.xml", "onnx": "model.onnx", "litert": "model.tflite"}
