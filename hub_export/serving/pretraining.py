"""Signatures of models that are trained for no task: texts to their pooled output, and what fills a mask."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.features import WORD_IDS
from albert_tf.model import AlbertEncoder
from albert_tf.text import PieceTokenizer, Vocabulary, pack
from albert_tf.text.offsets import rows_of
from albert_tf.text.vocabulary import ALBERT_IDS
from albert_tf.text.vocabulary import MASK as MASK_PIECE
from hub_export.serving.signature import (
    Served,
    Signature,
    Tensors,
    text_signatures,
    text_spec,
    without_padding,
)

# The fillings that `fill_mask` answers with for each mask, at most.
TOP_K = 5

SPACE = "▁"  # U+2581, how SentencePiece spells a space


def encoder_signatures(served: Served) -> dict[str, Signature]:
    """`serving_default` and `pair`: texts to `pooled_output`, float32 [B, H]."""
    model = served.model
    encoder = model if isinstance(model, AlbertEncoder) else model.encoder

    def pooled_output(*texts: tf.Tensor) -> Tensors:
        outputs = encoder(served.inputs(*texts), training=False)
        return {"pooled_output": tf.cast(outputs["pooled_output"], tf.float32)}

    return text_signatures(pooled_output)


def pretrainer_signatures(served: Served) -> dict[str, Signature]:
    """Those of the encoder, and `fill_mask`.

    It is from `text` with `[MASK]` in it to the likeliest `tokens` string [B, M, K] and their probabilities,
    `scores` float32 [B, M, K]. M is the most masks in a text of the batch: the rows of other texts end in
    empty tokens of score 0, and so do those of texts that lost masks to trimming.
    """
    model, tokenizer = served.model, served.tokenizer
    answers, is_answer = answer_table(tokenizer.vocabulary, model.config.vocab_size)

    @tf.function(input_signature=[text_spec("text")])
    def fill_mask(text: tf.Tensor) -> Tensors:
        tokens = tokens_with_masks(tf.ensure_shape(text, [None]), tokenizer)
        inputs = without_padding(pack([tokens], served.seq_length))
        positions, is_mask = mask_positions(inputs[WORD_IDS])
        sequence = model.encoder(inputs, training=False)["sequence_output"]
        logits = model.mlm(sequence, positions, model.encoder.embeddings.word_embeddings)  # [B, M, V]
        probabilities = tf.where(is_answer, tf.nn.softmax(logits), 0)
        best = tf.math.top_k(probabilities, min(TOP_K, model.config.vocab_size))  # [B, M, K]
        is_mask = is_mask[:, :, tf.newaxis]  # [B, M, 1]
        return {
            "tokens": tf.where(is_mask, tf.gather(answers, best.indices), ""),
            "scores": tf.where(is_mask, best.values, 0),
        }

    request = Signature(fill_mask, {"text": [f"The water is {MASK_PIECE}."]})
    return {**encoder_signatures(served), "fill_mask": request}


def answer_table(vocabulary: Vocabulary, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """What each token id is as an answer.

    Args:
      vocabulary: the pieces.
      vocab_size: rows of the model's embeddings, V, of which the vocabulary may use fewer.
    Returns:
      The text of each id, string [V], without the space before a word, and ▁ for the piece that is a space
      alone: an empty text means that there is no mask; and whether it may be an answer, bool
      [V]: special pieces and ids beyond the vocabulary may not.
    """
    unused = vocab_size - len(vocabulary)
    texts = [piece.replace(SPACE, " ").strip() or piece for piece in vocabulary.pieces] + [""] * unused
    return np.array(texts, object), np.pad(vocabulary.ordinary, (0, unused))


def tokens_with_masks(text: tf.Tensor, tokenizer: PieceTokenizer) -> tf.RaggedTensor:
    """The tokens of texts in which `[MASK]` stands for the mask token.

    Each part between masks is tokenised by itself. SentencePiece begins it with a space even where the text
    has none; where that space is a token of its own, as before a full stop, it is dropped: in training,
    a mask is followed by what followed the word.

    Args:
      text: string [B].
      tokenizer: text to token ids.
    Returns:
      int32 [B, (tokens)].
    """
    parts = tf.strings.split(text, MASK_PIECE)  # [B, (parts)]
    rows = rows_of(parts.row_splits)  # [parts]
    is_first = tf.concat([[True], rows[1:] != rows[:-1]], axis=0)[: tf.size(rows)]
    pieces = tokenizer(parts.flat_values)  # [parts, (tokens)]
    part = rows_of(pieces.row_splits)  # [tokens]
    opens = tf.equal(tf.range(tf.size(part)), tf.cast(tf.gather(pieces.row_splits, part), tf.int32))
    glued = ~is_first & ~tf.strings.regex_full_match(parts.flat_values, r"(?s)\s.*")
    is_added = opens & tf.gather(glued, part) & (pieces.flat_values == _space_id(tokenizer.vocabulary))
    # A mask before each part but the first of its text, which a stable sort moves to its place.
    number = tf.concat([tf.range(tf.size(rows)), part], axis=0)  # [parts + tokens]
    order = tf.argsort(number, stable=True)
    order = tf.boolean_mask(order, tf.gather(tf.concat([~is_first, ~is_added], axis=0), order))
    ids = tf.concat([tf.fill([tf.size(rows)], ALBERT_IDS.mask), pieces.flat_values], axis=0)
    return tf.RaggedTensor.from_value_rowids(
        tf.gather(ids, order),
        tf.cast(tf.gather(rows, tf.gather(number, order)), tf.int64),
        nrows=tf.size(text, tf.int64),
        validate=False,
    )


def _space_id(vocabulary: Vocabulary) -> int:
    """The id of the piece that is a space alone; -1, which no token has, where there is none."""
    return vocabulary.pieces.index(SPACE) if SPACE in vocabulary.pieces else -1


def mask_positions(word_ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Where the mask tokens stand.

    Args:
      word_ids: int32 [B, S].
    Returns:
      Positions int32 [B, M], M being the most masks of a row, ascending and padded with 0; and which of them
      are no padding, bool [B, M].
    """
    length = tf.shape(word_ids)[1]
    columns = tf.where(word_ids == ALBERT_IDS.mask, tf.range(length), length)  # [B, S]
    most = tf.reduce_max(tf.math.count_nonzero(columns < length, axis=1, dtype=tf.int32))
    columns = tf.sort(columns, axis=1)[:, : tf.maximum(most, 0)]  # [B, M]
    return tf.where(columns < length, columns, 0), columns < length
