"""A model for TF Serving: signatures from text to answers, dense tensors in and out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.features import MASK, WORD_IDS
from albert_tf.model import AlbertEncoder, AlbertPretrainer
from albert_tf.text import PieceTokenizer, Vocabulary, pack
from albert_tf.text.offsets import rows_of
from albert_tf.text.vocabulary import ALBERT_IDS
from albert_tf.text.vocabulary import MASK as MASK_PIECE
from hub_export.encoder import ids_signature

# The fillings that `fill_mask` answers with for each mask, at most.
TOP_K = 5

SPACE = "▁"  # U+2581, how SentencePiece spells a space

Tensors = dict[str, tf.Tensor]

TEXT = tf.TensorSpec([None], tf.string, "text")

# Requests that show each signature, and that a server answers before it takes others.
EXAMPLES: dict[str, dict[str, Any]] = {
    "serving_default": {"text": ["Warm words before the first visitor."]},
    "pair": {"text": ["Is the water warm?"], "text_pair": ["It will be soon."]},
    "tokens": {
        "input_word_ids": [[ALBERT_IDS.start, ALBERT_IDS.separator]],
        "input_mask": [[1, 1]],
        "input_type_ids": [[0, 0]],
    },
    "fill_mask": {"text": [f"The water is {MASK_PIECE}."]},
}


def serving_signatures(
    model: keras.Model, tokenizer: PieceTokenizer, seq_length: int
) -> dict[str, tf.types.experimental.ConcreteFunction]:
    """What a server answers for a model, to be saved with its variables.

    The ranks of the inputs are checked in the graph: a server does not compare them with the signature.

    Args:
      model: an AlbertEncoder or a model that has one as `encoder`.
      tokenizer: text to token ids.
      seq_length: longest input in tokens; longer texts are trimmed.
    Returns:
      By name: `serving_default`, from `text` string [B] to `pooled_output` float32 [B, H]; `pair`, the same
      of `text` and `text_pair`; `tokens`, from the encoder's inputs int32 [B, S] to `pooled_output` and
      `sequence_output` [B, S, H]; and of an AlbertPretrainer `fill_mask`, from `text` with `[MASK]` in it to
      the likeliest `tokens` string [B, M, K] and their probabilities, `scores` float32 [B, M, K]. M is the
      most masks in a text of the batch: the rows of other texts end in empty tokens of score 0, and so do
      those of texts that lost masks to trimming.
    """
    encoder = model if isinstance(model, AlbertEncoder) else model.encoder

    def pooled_output(texts: list[tf.Tensor]) -> Tensors:
        segments = [tokenizer(tf.ensure_shape(text, [None])) for text in texts]
        inputs = without_padding(pack(segments, seq_length))
        return {"pooled_output": tf.cast(encoder(inputs, training=False)["pooled_output"], tf.float32)}

    @tf.function(input_signature=[TEXT])
    def serving_default(text: tf.Tensor) -> Tensors:
        return pooled_output([text])

    @tf.function(input_signature=[TEXT, tf.TensorSpec([None], tf.string, "text_pair")])
    def pair(text: tf.Tensor, text_pair: tf.Tensor) -> Tensors:
        return pooled_output([text, text_pair])

    tokens = ids_signature(lambda inputs: encoder(inputs, training=False))
    functions = {"serving_default": serving_default, "pair": pair, "tokens": tokens}
    if isinstance(model, AlbertPretrainer):
        functions["fill_mask"] = _fill_mask(model, tokenizer, seq_length)
    return {name: function.get_concrete_function() for name, function in functions.items()}


def example_requests(signatures: Iterable[str]) -> dict[str, Tensors]:
    """A request for each of some signatures: its inputs by name."""
    return {
        signature: {name: tf.constant(value) for name, value in EXAMPLES[signature].items()}
        for signature in signatures
    }


def _fill_mask(
    model: AlbertPretrainer, tokenizer: PieceTokenizer, seq_length: int
) -> tf.types.experimental.GenericFunction:
    answers, is_answer = answer_table(tokenizer.vocabulary, model.config.vocab_size)

    @tf.function(input_signature=[TEXT])
    def fill_mask(text: tf.Tensor) -> Tensors:
        tokens = tokens_with_masks(tf.ensure_shape(text, [None]), tokenizer)
        inputs = without_padding(pack([tokens], seq_length))
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

    return fill_mask


def without_padding(inputs: Tensors) -> Tensors:
    """The encoder's inputs without the columns that are padding in every row: they would cost time alone.

    Args:
      inputs: `input_mask` and others, [B, S] each.
    Returns:
      The same, [B, longest row].
    """
    longest = tf.maximum(tf.reduce_max(tf.reduce_sum(inputs[MASK], axis=1)), 1)  # of no rows: the lowest int
    return {name: tensor[:, :longest] for name, tensor in inputs.items()}


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
