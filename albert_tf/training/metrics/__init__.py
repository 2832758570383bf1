"""Figures that say how good a model is."""

from albert_tf.training.metrics.squad import squad_scores
from albert_tf.training.metrics.terms import term_metrics

__all__ = ["squad_scores", "term_metrics"]
