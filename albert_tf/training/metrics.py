"""Named figures from summed losses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from albert_tf.training.losses import Term
from albert_tf.training.squad_metrics import squad_scores

__all__ = ["squad_scores", "term_metrics"]


def term_metrics(terms: Mapping[str, Term], prefix: str = "") -> dict[str, float]:
    """Mean losses and accuracies.

    Args:
      terms: the summed terms by name, as numbers or scalar tensors.
      prefix: put before each name, such as "eval_".
    Returns:
      `loss`, the sum of the means, and `<term>_loss` (nats) and `<term>_accuracy` for each term; the masked
      tokens' perplexity besides. A term without any weight is not a number.
    """
    means = {name: Term(*(float(part) for part in term)) for name, term in terms.items()}
    figures = {}
    for name, term in means.items():
        weight = term.weight or np.nan
        figures[f"{name}_loss"] = term.loss / weight
        figures[f"{name}_accuracy"] = term.correct / weight
    if "mlm" in means:
        # Beyond e^88 there are no float32 numbers, which TensorBoard takes.
        figures["mlm_perplexity"] = float(np.exp(np.minimum(figures["mlm_loss"], 88)))
    total = sum(figures[f"{name}_loss"] for name in means)
    return {prefix + name: value for name, value in {"loss": total, **figures}.items()}
