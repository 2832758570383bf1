"""Named figures from summed losses."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from albert_tf.models.losses import Term


def term_metrics(terms: Mapping[str, Term]) -> dict[str, float]:
    """Mean losses and accuracies of summed terms.

    Returns:
      `loss`, the sum of the means, and `<term>_loss` (nats) and `<term>_accuracy` for each term, but for
      regression only the loss. A term without any weight is NaN.
    """
    means = {name: Term(*(float(part) for part in term)) for name, term in terms.items()}
    figures = {}
    for name, term in means.items():
        weight = term.weight or np.nan
        figures[f"{name}_loss"] = term.loss / weight
        if not np.isnan(term.correct):
            figures[f"{name}_accuracy"] = term.correct / weight
    return {"loss": sum(figures[f"{name}_loss"] for name in means), **figures}
