"""Masked words: a pre-trained model fills each `[MASK]` of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import WORD_IDS, Tensors
from albert_tf.errors import InputError, shorten
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.serving import ServingModel, Signature, encoder_signatures, without_padding
from albert_tf.tasks.task import Arrays, Task
from albert_tf.text.offsets import row_edges, rows_of
from albert_tf.text.packing import pack
from albert_tf.text.text_tokenizer import check_text, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer, Vocabulary

MASK_TOKEN = "[MASK]"  # in a text; the vocabulary may have another name for the token
_ROBERTA_MASK_TOKEN = "<mask>"


def answer_table(vocabulary: Vocabulary, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """The text of each token id, string [V], and whether the token may be an answer, bool [V].

    The vocabulary may have fewer tokens than the `vocab_size` rows of a model's embeddings. Special tokens,
    and ids without a token, may not be answers; the text of the latter is empty.
    """
    texts = np.append(vocabulary.texts, [""] * (vocab_size - len(vocabulary)))
    return texts, np.isin(np.arange(vocab_size), vocabulary.ordinary_ids)


def tokens_with_masks(text: tf.Tensor, tokenizer: TextTokenizer) -> tf.RaggedTensor:
    """The tokens, int32 [B, (tokens)], of texts, string [B], in which `[MASK]` stands for the mask token.

    Each part between masks is tokenised by itself. SentencePiece adds a space before each part, even where
    the text has none. If that space is a token of its own, as before a full stop, it is dropped, since in
    training the mask replaces the word alone. Spaces before a mask belong to the mask, as to a word.
    """
    vocabulary = tokenizer.vocabulary
    if vocabulary.texts[vocabulary.special_ids.mask] == _ROBERTA_MASK_TOKEN:
        text = tf.strings.regex_replace(text, _ROBERTA_MASK_TOKEN, MASK_TOKEN)
    parts = tf.strings.split(text, MASK_TOKEN)  # [B, (parts)]
    rows = rows_of(parts.row_splits)  # [parts]
    is_first, is_last = row_edges(rows)
    stripped = tf.strings.regex_replace(parts.flat_values, r"\s+\z", "")
    pieces = tokenizer(tf.where(is_last, parts.flat_values, stripped))  # [parts, (tokens)]
    part = rows_of(pieces.row_splits)  # [tokens]
    is_first_token = tf.equal(tf.range(tf.size(part)), tf.cast(tf.gather(pieces.row_splits, part), tf.int32))
    has_no_space = ~is_first & ~tf.strings.regex_full_match(parts.flat_values, r"(?s)\s.*")
    is_added = is_first_token & tf.gather(has_no_space, part) & (pieces.flat_values == vocabulary.space_id)
    # There is a mask before each part except the first one of a text. A stable sort moves it there.
    part_of = tf.concat([tf.range(tf.size(rows)), part], axis=0)  # [parts + tokens]
    order = tf.argsort(part_of, stable=True)
    order = tf.boolean_mask(order, tf.gather(tf.concat([~is_first, ~is_added], axis=0), order))
    ids = tf.concat([tf.fill([tf.size(rows)], vocabulary.special_ids.mask), pieces.flat_values], axis=0)
    return tf.RaggedTensor.from_value_rowids(
        tf.gather(ids, order),
        tf.cast(tf.gather(rows, tf.gather(part_of, order)), tf.int64),
        nrows=tf.size(text, tf.int64),
        validate=False,
    )


def mask_positions(word_ids: tf.Tensor, mask_id: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The positions of mask tokens in `word_ids` int32 [B, S].

    Returns the positions, ascending and padded with 0, int32 [B, M]; and True for positions that are not
    padding, bool [B, M]. M is the largest number of masks of a row.
    """
    length = tf.shape(word_ids)[1]
    columns = tf.where(word_ids == mask_id, tf.range(length), length)  # [B, S]
    most = tf.reduce_max(tf.math.count_nonzero(columns < length, axis=1, dtype=tf.int32))
    columns = tf.sort(columns, axis=1)[:, : tf.maximum(most, 0)]  # [B, M]
    return tf.where(columns < length, columns, 0), columns < length


class MaskedWords(Task):
    """Fills masks by the head of pre-training; this task is not fine-tuned."""

    name = "fill_mask"
    model_kind = "pretrainer"
    signature = "fill_mask"
    inputs = ("text",)
    example: Mapping[str, Any] = {"text": [f"The water is {MASK_TOKEN}."]}

    def signatures(self, served: ServingModel) -> dict[str, Signature]:
        """The signatures of the encoder, and `fill_mask`."""
        return {**encoder_signatures(served), **super().signatures(served)}

    def answer(self, served: ServingModel, text: tf.Tensor) -> Tensors:
        """The likeliest `tokens` string [B, M, K] for the masks of texts, and their probabilities, `scores`.

        Texts, string [B], have `[MASK]` in them. M is the largest number of masks in a text of the batch. The
        rows of texts with fewer masks, or whose masks were cut off, end in empty tokens of score 0.
        """
        model, tokenizer, size = served.model, served.tokenizer, served.model.config.vocab_size
        text = tokenizer.shorten_text(ensure_text_batch(text), served.seq_length)
        tokens = tokens_with_masks(text, tokenizer)
        inputs = without_padding(pack([tokens], served.seq_length, served.input_format))
        mask_id = tokenizer.vocabulary.special_ids.mask
        positions, is_mask = mask_positions(inputs[WORD_IDS], mask_id)
        sequence = served.encode(inputs)["sequence_output"]
        logits = model.mlm(sequence, positions, model.encoder.embeddings.word_embeddings)  # [B, M, V]
        answers, is_answer = answer_table(tokenizer.vocabulary, size)
        best = tf.math.top_k(tf.where(is_answer, tf.nn.softmax(logits), 0), min(served.top_k, size))
        is_mask = is_mask[:, :, tf.newaxis]  # [B, M, 1]
        return {
            "tokens": tf.where(is_mask, tf.gather(answers, best.indices), ""),  # [B, M, K]
            "scores": tf.where(is_mask, best.values, 0),
        }

    def parse_input(self, value: Any, where: str) -> TextRecord:
        """Checks a text with masks in it."""
        text = check_text(value, where).replace(_ROBERTA_MASK_TOKEN, MASK_TOKEN)
        if MASK_TOKEN not in text:
            raise InputError(
                f"{where}={shorten(text)} has no {MASK_TOKEN}: it stands for what is to be filled in"
            )
        return TextRecord(where, 1, where, text, None, None)

    def format_output(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> list[Any]:
        """The likeliest tokens for the mask, or a list of them for each of several masks."""
        masks = record.text.count(MASK_TOKEN)
        if np.count_nonzero(outputs["tokens"][:, 0] != b"") < masks:
            raise InputError(f"{record.file}: a {MASK_TOKEN} stands after the tokens that are read")
        filled = []
        for tokens, scores in zip(outputs["tokens"][:masks], outputs["scores"][:masks], strict=True):
            best = list(zip(tokens, scores, strict=True))[:top_k]
            filled.append([{"token": token.decode(), "score": float(score)} for token, score in best])
        return filled[0] if masks == 1 else filled
