"""Masked words: what fills each `[MASK]` of a text, by a pre-trained model."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.features import WORD_IDS
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.tasks.kind import Arrays, Kind, Tensors
from albert_tf.tasks.serving import Served, Signature, encoder_signatures, text_spec, without_padding
from albert_tf.tokenizers.given import check_text
from albert_tf.tokenizers.masks import MASK, answer_table, mask_positions, tokens_with_masks
from albert_tf.tokenizers.packing import pack
from albert_tf.utils.errors import InputError, shown


class MaskedWords(Kind):
    """Answered by the head of pre-training; it is not fine-tuned."""

    name = "fill_mask"
    model = "pretrainer"
    signature = "fill_mask"
    inputs = ("text",)

    def signatures(self, served: Served) -> dict[str, Signature]:
        """Those of the encoder, and `fill_mask`.

        It is from `text` with `[MASK]` in it to the likeliest `tokens` string [B, M, K] and their
        probabilities, `scores` float32 [B, M, K]. M is the largest number of masks in a text of the batch:
        the rows of other texts end in empty tokens of score 0, and so do those of texts that lost masks to
        trimming.
        """
        model, tokenizer = served.model, served.tokenizer
        mask_id = tokenizer.vocabulary.special_ids.mask
        answers, is_answer = answer_table(tokenizer.vocabulary, model.config.vocab_size)

        @tf.function(input_signature=[text_spec("text")])
        def fill_mask(text: tf.Tensor) -> Tensors:
            tokens = tokens_with_masks(tf.ensure_shape(text, [None]), tokenizer)
            inputs = without_padding(pack([tokens], served.seq_length, served.input_format))
            positions, is_mask = mask_positions(inputs[WORD_IDS], mask_id)
            sequence = served.encoded(inputs)["sequence_output"]
            logits = model.mlm(sequence, positions, model.encoder.embeddings.word_embeddings)  # [B, M, V]
            probabilities = tf.where(is_answer, tf.nn.softmax(logits), 0)
            best = tf.math.top_k(probabilities, min(served.top_k, model.config.vocab_size))  # [B, M, K]
            is_mask = is_mask[:, :, tf.newaxis]  # [B, M, 1]
            return {
                "tokens": tf.where(is_mask, tf.gather(answers, best.indices), ""),
                "scores": tf.where(is_mask, best.values, 0),
            }

        request = Signature(fill_mask, {"text": [f"The water is {MASK}."]})
        return {**encoder_signatures(served), "fill_mask": request}

    def read(self, value: Any, where: str) -> TextRecord:
        """A text with masks in it."""
        text = check_text(value, where)
        if MASK not in text:
            raise InputError(f"{where}={shown(text)} has no {MASK}: it stands for what is to be filled in")
        return TextRecord(where, 1, where, text, None, None)

    def answer(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> list[Any]:
        """The likeliest tokens of the one mask, or a list of them for each of several."""
        masks = record.text.count(MASK)
        if np.count_nonzero(outputs["tokens"][:, 0] != b"") < masks:
            raise InputError(f"{record.file}: a {MASK} stands after the tokens that are read")
        filled = []
        for found in zip(outputs["tokens"][:masks], outputs["scores"][:masks], strict=True):
            best = list(zip(*found, strict=True))[:top_k]
            filled.append([{"token": token.decode(), "score": float(score)} for token, score in best])
        return filled[0] if masks == 1 else filled
