"""Signatures of classifiers: texts and pairs to labels, or to a number."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.checkpoints.pairs import takes_pairs
from hub_export.serving.signature import DEFAULT, PAIR, Served, Signature, Tensors, text_signatures


def classification_signatures(served: Served) -> dict[str, Signature]:
    """`serving_default` of a text a row, and `pair` of two, unless the run says which of them it learned.

    A model of pairs has `pair` alone, which is its `serving_default`, too: it answers no single texts. With
    labels they answer `label` string [B], the likeliest, and its probability `score` float32 [B]; `labels`
    string [B, K], all of them, the same in each row, and their probabilities `scores` float32 [B, K].
    Regression answers `score` float32 [B].
    """
    model = served.model
    names = served.label_names() if model.num_labels > 1 else []

    def answer(*texts: tf.Tensor) -> Tensors:
        logits = tf.cast(model(served.inputs(*texts), training=False)["logits"], tf.float32)  # [B, K]
        if not names:
            return {"score": logits[:, 0]}
        scores = tf.nn.softmax(logits)  # [B, K]
        return {
            "label": tf.gather(tf.constant(names), tf.argmax(scores, axis=1)),
            "score": tf.reduce_max(scores, axis=1),
            # Of each row, since a server that collects requests into batches splits each output by its rows.
            "labels": tf.repeat(tf.constant([names]), tf.shape(scores)[0], axis=0),
            "scores": scores,
        }

    signatures = text_signatures(answer)
    pairs = takes_pairs(served.task)
    if pairs is None:  # a run that does not say may have learned either
        return signatures
    name = PAIR if pairs else DEFAULT
    return {name: signatures[name]}
