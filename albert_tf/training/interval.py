"""The figures of the updates between two lines of the log."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

import tensorflow as tf

from albert_tf.model.losses import Term
from albert_tf.training.metrics import term_metrics
from albert_tf.training.updates import Totals


class Interval:
    """What the updates since the last line of the log amount to.

    Args:
      figures: those of summed terms.
    """

    def __init__(self, figures: Callable[[Mapping[str, Term]], dict[str, float]] = term_metrics) -> None:
        self._figures_of = figures
        self._terms: dict[str, Term] | None = None
        self._gradient_norm = math.nan
        self._examples = 0
        self._seconds = 0.0
        self._waited = 0.0

    def add(self, totals: Totals, examples: int, seconds: float) -> None:
        """Counts in the totals of some updates, as numbers."""
        terms = totals.terms
        if self._terms is not None:
            terms = tf.nest.map_structure(operator.add, self._terms, terms)
        self._terms, self._gradient_norm = terms, totals.gradient_norm
        self._examples += examples
        self._seconds += seconds
        self._waited += totals.input_wait

    def figures(self, seq_length: int | None) -> dict[str, float]:
        """Mean losses and accuracies, the last update's gradient norm, and the speed.

        Args:
          seq_length: positions of an example, which `tokens_per_second` counts, padding included; None where
            they are not all as long.
        """
        rate = self._examples / self._seconds
        return {
            **self._figures_of(self._terms or {}),
            "gradient_norm": self._gradient_norm,
            "examples_per_second": rate,
            **({} if seq_length is None else {"tokens_per_second": rate * seq_length}),
            "input_wait": self._waited / self._seconds,
        }
