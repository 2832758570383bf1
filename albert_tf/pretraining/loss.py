"""Losses and metrics of pre-training: masked tokens and sentence order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import MLM_IDS, MLM_WEIGHTS, SENTENCE_LABELS, Tensors
from albert_tf.models.loss_sums import (
    Loss,
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
    mlm_losses = fused_cross_entropy if fused else cross_entropy

    def mlm_loss(outputs: Mapping[str, Any], batch: Tensors, weights: tf.Tensor) -> LossSum:
        return classification_loss_sum(outputs["mlm_logits"], batch[MLM_IDS], weights, mlm_losses)

    losses = {"mlm": Loss(mlm_loss, lambda batch: batch[MLM_WEIGHTS])}
    if sentence_objective != "none":
        name = SENTENCE_LABELS[sentence_objective]

        def sentence_loss(outputs: Mapping[str, Any], batch: Tensors, weights: tf.Tensor) -> LossSum:
            return classification_loss_sum(outputs[f"{sentence_objective}_logits"], batch[name], weights)

        losses[sentence_objective] = Loss(sentence_loss, lambda batch: tf.cast(batch[name] >= 0, tf.float32))
    return LossFn(losses)


def pretraining_metrics(
    terms: Mapping[str, LossSum], loss_weights: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Computes `loss_metrics` and, if there is a loss `mlm`, its perplexity `mlm_perplexity`."""
    metrics = loss_metrics(terms, loss_weights)
    if "mlm" not in terms:
        return metrics
    # TensorBoard uses float32, whose largest value is about e^88.
    return {**metrics, "mlm_perplexity": float(np.exp(np.minimum(metrics["mlm_loss"], 88)))}
