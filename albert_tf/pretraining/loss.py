"""The objective of pre-training: masked tokens, and the order of segments."""

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
    """The losses of AlbertPretrainer's outputs, of a batch of `pretraining_dataset`.

    Args:
      sentence_objective: "sop", "nsp" or "none".
      fused: compile the loss of masked tokens, as a model's `fused` functions are.
    Returns:
      A term `mlm`, and one `sop` or `nsp`. Rows that fill up a last batch count nothing.
    Source: Lan et al. 2020, §3.1; both losses have the weight 1.
    """
    labels_name = SENTENCE_LABELS.get(sentence_objective)
    mlm_losses = fused_cross_entropy if fused else cross_entropy

    def terms(outputs: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]) -> dict[str, LossSum]:
        masked = outputs["mlm_logits"], batch[MLM_IDS], batch[MLM_WEIGHTS]
        found = {"mlm": classification_loss_sum(*masked, mlm_losses)}
        if labels_name:
            logits, labels = outputs[f"{sentence_objective}_logits"], batch[labels_name]
            found[sentence_objective] = classification_loss_sum(logits, labels, _is_labelled(labels))
        return found

    def weights(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        found = {"mlm": tf.reduce_sum(batch[MLM_WEIGHTS])}
        if labels_name:
            found[sentence_objective] = tf.reduce_sum(_is_labelled(batch[labels_name]))
        return found

    return LossFn(("mlm", sentence_objective) if labels_name else ("mlm",), terms, weights)


def _is_labelled(labels: tf.Tensor) -> tf.Tensor:
    """1 for a row with a label, 0 for one that fills up the batch (label -1); float32 [B]."""
    return tf.cast(labels >= 0, tf.float32)


def pretraining_metrics(
    terms: Mapping[str, LossSum], factors: Mapping[str, float] | None = None
) -> dict[str, float]:
    """`loss_metrics`, and the masked tokens' perplexity, where their loss is among the terms."""
    metrics = loss_metrics(terms, factors)
    if "mlm" not in terms:
        return metrics
    # TensorBoard takes float32, which ends at about e^88.
    return {**metrics, "mlm_perplexity": float(np.exp(np.minimum(metrics["mlm_loss"], 88)))}
