"""Signatures of models that are trained for no task: texts to their pooled output, and what fills a mask."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.features import WORD_IDS
from albert_tf.model import AlbertEncoder
from albert_tf.model.padding import skip_padding
from albert_tf.text import pack
from albert_tf.text.masks import answer_table, mask_positions, tokens_with_masks
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
        sequence = model.encoder(skip_padding(inputs), training=False)["sequence_output"]
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
