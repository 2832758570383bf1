"""The objective of pre-training: masked tokens, and the order of segments."""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from albert_tf.features import MLM_IDS, MLM_WEIGHTS, SENTENCE_LABELS
from albert_tf.models.losses import Objective, Term, classification_term, cross_entropy, fused_cross_entropy
from albert_tf.training.metrics import term_metrics


def pretraining_objective(sentence_objective: str, *, fused: bool = False) -> Objective:
    """The objective of pre-training.

    Args:
      sentence_objective: "sop", "nsp" or "none".
      fused: the loss of masked tokens is compiled, as a model's `fused` functions are.
    """
    names = ("mlm",) if sentence_objective == "none" else ("mlm", sentence_objective)
    return Objective(
        names,
        functools.partial(pretraining_terms, sentence_objective=sentence_objective, fused=fused),
        functools.partial(pretraining_weights, sentence_objective=sentence_objective),
    )


def pretraining_terms(
    outputs: Mapping[str, tf.Tensor],
    batch: Mapping[str, tf.Tensor],
    sentence_objective: str,
    *,
    fused: bool = False,
) -> dict[str, Term]:
    """The losses of pre-training.

    Args:
      outputs: of AlbertPretrainer.
      batch: of `pretraining_dataset`.
      sentence_objective: "sop", "nsp" or "none".
      fused: as `pretraining_objective` takes it.
    Returns:
      A term for `mlm`, and one for `sop` or `nsp`. Rows that fill up a last batch count nothing.
    Source: Lan et al. 2020, §3.1; both losses have the weight 1.
    """
    masked = outputs["mlm_logits"], batch[MLM_IDS], batch[MLM_WEIGHTS]
    terms = {"mlm": classification_term(*masked, fused_cross_entropy if fused else cross_entropy)}
    if sentence_objective != "none":
        labels = batch[SENTENCE_LABELS[sentence_objective]]
        terms[sentence_objective] = classification_term(
            outputs[f"{sentence_objective}_logits"], labels, sentence_weights(labels)
        )
    return terms


def pretraining_weights(batch: Mapping[str, tf.Tensor], sentence_objective: str) -> dict[str, tf.Tensor]:
    """The weights of `pretraining_terms` alone, known before the model has run."""
    weights = {"mlm": tf.reduce_sum(batch[MLM_WEIGHTS])}
    if sentence_objective != "none":
        labels = batch[SENTENCE_LABELS[sentence_objective]]
        weights[sentence_objective] = tf.reduce_sum(sentence_weights(labels))
    return weights


def sentence_weights(labels: tf.Tensor) -> tf.Tensor:
    """1 for a row with a label, 0 for one that fills up the batch (label -1); float32 [B]."""
    return tf.cast(labels >= 0, tf.float32)


def pretraining_metrics(terms: Mapping[str, Term]) -> dict[str, float]:
    """Mean losses and accuracies of summed terms, and the masked tokens' perplexity."""
    figures = term_metrics(terms)
    # TensorBoard takes float32, which ends at about e^88.
    return {**figures, "mlm_perplexity": float(np.exp(np.minimum(figures["mlm_loss"], 88)))}
