"""Texts with `[MASK]` in them: their tokens, where the masks are, and what may fill them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from albert_tf.tokenizers.kinds import TextTokenizer, TokenIds
from albert_tf.tokenizers.offsets import rows_of

MASK = "[MASK]"  # in a text, whatever its tokenizer calls the token


def answer_table(vocabulary: TokenIds, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The text of each token id as an answer, string [V], and whether it may be one, bool [V].

    Of the vocab_size rows of a model's embeddings the vocabulary may use fewer. Special ids and those beyond
    it, whose text is empty, may not be answers.
    """
    texts = np.append(vocabulary.texts, [""] * (vocab_size - len(vocabulary)))
    return texts, np.isin(np.arange(vocab_size), vocabulary.ordinary_ids)


def tokens_with_masks(text: tf.Tensor, tokenizer: TextTokenizer) -> tf.RaggedTensor:
    """The tokens of texts, string [B], in which `[MASK]` stands for the mask token: int32 [B, (tokens)].

    Each part between masks is tokenised by itself. SentencePiece begins it with a space even where the text
    has none; where that space is a token of its own, as before a full stop, it is dropped: in training,
    a mask is followed by what followed the word. Blanks before a mask belong to it, as to the word.
    """
    vocabulary = tokenizer.vocabulary
    parts = tf.strings.split(text, MASK)  # [B, (parts)]
    rows = rows_of(parts.row_splits)  # [parts]
    is_first = tf.concat([[True], rows[1:] != rows[:-1]], axis=0)[: tf.size(rows)]
    is_last = tf.concat([rows[1:] != rows[:-1], [True]], axis=0)[: tf.size(rows)]
    stripped = tf.strings.regex_replace(parts.flat_values, r"\s+\z", "")
    pieces = tokenizer(tf.where(is_last, parts.flat_values, stripped))  # [parts, (tokens)]
    part = rows_of(pieces.row_splits)  # [tokens]
    opens = tf.equal(tf.range(tf.size(part)), tf.cast(tf.gather(pieces.row_splits, part), tf.int32))
    glued = ~is_first & ~tf.strings.regex_full_match(parts.flat_values, r"(?s)\s.*")
    is_added = opens & tf.gather(glued, part) & (pieces.flat_values == vocabulary.space_id)
    # A mask before each part but the first of its text, which a stable sort moves to its place.
    number = tf.concat([tf.range(tf.size(rows)), part], axis=0)  # [parts + tokens]
    order = tf.argsort(number, stable=True)
    order = tf.boolean_mask(order, tf.gather(tf.concat([~is_first, ~is_added], axis=0), order))
    ids = tf.concat([tf.fill([tf.size(rows)], vocabulary.special_ids.mask), pieces.flat_values], axis=0)
    return tf.RaggedTensor.from_value_rowids(
        tf.gather(ids, order),
        tf.cast(tf.gather(rows, tf.gather(number, order)), tf.int64),
        nrows=tf.size(text, tf.int64),
        validate=False,
    )


def mask_positions(word_ids: tf.Tensor, mask_id: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The positions of mask tokens in int32 [B, S], ascending and padded with 0: int32 [B, M].

    M is the most masks of a row. Second, which of them are no padding, bool [B, M].
    """
    length = tf.shape(word_ids)[1]
    columns = tf.where(word_ids == mask_id, tf.range(length), length)  # [B, S]
    most = tf.reduce_max(tf.math.count_nonzero(columns < length, axis=1, dtype=tf.int32))
    columns = tf.sort(columns, axis=1)[:, : tf.maximum(most, 0)]  # [B, M]
    return tf.where(columns < length, columns, 0), columns < length
