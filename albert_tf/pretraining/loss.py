"""Losses and metrics of pre-training: masked tokens and sentence order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.constants import MLM_IDS, MLM_WEIGHTS, SENTENCE_LABELS
from albert_tf.models.loss_sums import (
    LossFn,
    LossSum,
    classification_loss_sum,
    cross_entropy,
    fused_cross_entropy,
)
from albert_tf.training.metrics_logger import loss_metrics


def pretraining_loss_fn(sentence_objective: str, *, fused: bool = False) -> LossFn:
    """Creates the losses of AlbertPretrainer for batches of `pretraining_dataset`.

    Args:
      sentence_objective: "sop", "nsp" or "none".
      fused: True to compile the loss of masked tokens, like the `fused` functions of a model.
    Returns:
      The loss `mlm` and, unless the objective is "none", `sop` or `nsp`. Rows that fill up a batch do not
      count.
    Source: Lan et al. 2020, §3.1; both losses have the weight 1.
    """
    labels_name = SENTENCE_LABELS.get(sentence_objective)
    mlm_losses = fused_cross_entropy if fused else cross_entropy

    def terms(outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> dict[str, LossSum]:
        masked = outputs["mlm_logits"], batch[MLM_IDS], batch[MLM_WEIGHTS]
        sums = {"mlm": classification_loss_sum(*masked, mlm_losses)}
        if labels_name:
            logits, labels = outputs[f"{sentence_objective}_logits"], batch[labels_name]
            sums[sentence_objective] = classification_loss_sum(logits, labels, _label_weights(labels))
        return sums

    def weight_sums(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        sums = {"mlm": tf.reduce_sum(batch[MLM_WEIGHTS])}
        if labels_name:
            sums[sentence_objective] = tf.reduce_sum(_label_weights(batch[labels_name]))
        return sums

    return LossFn(("mlm", sentence_objective) if labels_name else ("mlm",), terms, weight_sums)


def _label_weights(labels: tf.Tensor) -> tf.Tensor:
    """float32 [B]: 1 for a row with a label, 0 for a row that fills up the batch (label -1)."""
    return tf.cast(labels >= 0, tf.float32)


def pretraining_metrics(
    terms: Mapping[str, LossSum], loss_weights: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Computes `loss_metrics` and, if there is a loss `mlm`, its perplexity `mlm_perplexity`."""
    metrics = loss_metrics(terms, loss_weights)
    if "mlm" not in terms:
        return metrics
    # TensorBoard uses float32, whose largest value is about e^88.
    return {**metrics, "mlm_perplexity": float(np.exp(np.minimum(metrics["mlm_loss"], 88)))}
