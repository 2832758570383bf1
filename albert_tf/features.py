"""The tensors that go into a model: the only home of their names, types and shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

WORD_IDS = "input_word_ids"  # int32 [B, S]
MASK = "input_mask"  # int32 [B, S], 1 for tokens and 0 for padding
TYPE_IDS = "input_type_ids"  # int32 [B, S], 0 for the first segment and 1 for the second

MLM_POSITIONS = "masked_lm_positions"  # int32 [B, P], ascending, padded with 0
MLM_IDS = "masked_lm_ids"  # int32 [B, P], what stood there
MLM_WEIGHTS = "masked_lm_weights"  # float32 [B, P], 0 for padding

ENCODER_INPUTS = (WORD_IDS, MASK, TYPE_IDS)

# int32 [T], ascending: the positions of a batch, numbered row by row, that hidden states are computed for.
TOKEN_PLACES = "token_places"

# Of fine-tuning. A row that fills up a batch is one of zero mask.
LABELS = "labels"  # int32 [B], tagging [B, S]; below 0 where there is none; regression float32 [B]
START_POSITIONS = "start_positions"  # int32 [B], the token that the answer starts with, 0 where there is none
END_POSITIONS = "end_positions"  # int32 [B], the token that it ends with, 0 where there is none
IS_IMPOSSIBLE = "is_impossible"  # int32 [B], 1 where there is no answer in these tokens
WEIGHTS = "weights"  # float32 [B], of each row in the loss; 1 where there is none
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
