"""Signatures of classifiers: texts and pairs to labels, or to a number."""

from __future__ import annotations

import tensorflow as tf

from hub_export.serving.signature import DEFAULT, Served, Signature, Tensors, text_signatures


def classification_signatures(served: Served) -> dict[str, Signature]:
    """`serving_default` of a text a row, and `pair` of two, unless the run's columns have only one.

    With labels they answer `label` string [B], the likeliest, and its probability `score` float32 [B];
    `labels` string [K], all of them, and their probabilities `scores` float32 [B, K]. Regression answers
    `score` float32 [B].
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
            "labels": tf.constant(names),
            "scores": scores,
        }

    signatures = text_signatures(answer)
    columns = served.task.get("columns") or {"text_pair": "?"}  # a run that does not say may have either
    return signatures if columns.get("text_pair") else {DEFAULT: signatures[DEFAULT]}
