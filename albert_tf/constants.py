"""The names of tensors, and the words that a setting may have. TensorFlow is not imported."""

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
MLM_IDS = "masked_lm_ids"  # int32 [B, P], what stood there
MLM_WEIGHTS = "masked_lm_weights"  # float32 [B, P], 0 for padding

ENCODER_INPUTS = (WORD_IDS, INPUT_MASK, TYPE_IDS)

# int32 [T], ascending: the positions of a batch, numbered row by row, that hidden states are computed for.
TOKEN_PLACES = "token_places"

# Of fine-tuning. A row that fills up a batch is one of zero mask.
LABELS = "labels"  # int32 [B], tagging [B, S]; below 0 where there is none; regression float32 [B]
START_POSITIONS = "start_positions"  # int32 [B], the token that the answer starts with, 0 where there is none
END_POSITIONS = "end_positions"  # int32 [B], the token that it ends with, 0 where there is none
IS_IMPOSSIBLE = "is_impossible"  # int32 [B], 1 where there is no answer in these tokens
WEIGHTS = "weights"  # float32 [B], of each row in the loss; 1 where there is none
SOFT_WEIGHTS = (
    "soft_weights"  # float32 [B], of each row in the loss against a teacher; as WEIGHTS if there is none
)
ROWS = "rows"  # int32 [B], the number of the example in its data; -1 where there is none

# Each sentence objective and the name of its labels, int32 [B]: 0 in order (or the true next segment),
# 1 swapped (or a segment of another document), -1 for a row that fills up a last batch.
SENTENCE_LABELS = {"sop": "sentence_order_labels", "nsp": "next_sentence_labels"}
SENTENCE_OBJECTIVES = (*SENTENCE_LABELS, "none")


# What a classifier reads of a sequence: its pooled output, which is of the first token, or the mean of the
# states of all its tokens.
POOLINGS = FIRST, MEAN = ("first", "mean")


def pretraining_spec(
    batch_size: int | None, seq_length: int, max_predictions: int, sentence_objective: str
) -> dict[str, tf.TensorSpec]:
    """The tensors of a pre-training batch by name, of B, S and P; B may be unknown, None."""
    import tensorflow as tf  # not before: the names are of use to those who do without

    tokens, predictions = [batch_size, seq_length], [batch_size, max_predictions]
    shapes = {
        **dict.fromkeys(ENCODER_INPUTS, tokens),
        **dict.fromkeys((MLM_POSITIONS, MLM_IDS, MLM_WEIGHTS), predictions),
    }
    if sentence_objective != "none":
        shapes[SENTENCE_LABELS[sentence_objective]] = [batch_size]
    types = {MLM_WEIGHTS: tf.float32}
    return {name: tf.TensorSpec(shape, types.get(name, tf.int32), name) for name, shape in shapes.items()}


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
