"""Hyper-parameters of every published run, as frozen data that names its source."""

from __future__ import annotations

import dataclasses
from typing import Any

from albert_tf.features import check_sentence_objective


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingRecipe:
    """Everything but the network that decides how a pre-training run goes; the defaults are the paper's.

    Args:
      optimizer: "lamb" or "adamw".
      learning_rate: rate that the warm-up climbs to.
      batch_size: examples an update, over all devices.
      steps: updates.
      warmup_steps: updates of linear warm-up.
      weight_decay: of all but LayerNorms and biases.
      beta_1: decay rate of the gradient's running mean.
      beta_2: decay rate of the squared gradient's running mean.
      epsilon: the optimizer's.
      clip_norm: largest global norm of the gradients; None leaves them as they are.
      seq_length: tokens an example, S.
      max_predictions: masked tokens an example at most, P; None: ceil(masked_lm_prob · seq_length).
      sentence_objective: "sop", "nsp" or "none".
      short_seq_prob: share of the examples that are shorter at random.
      masked_lm_prob: share of the tokens that are masked.
      max_ngram: longest masked span, in words.
      whole_word: whether words are masked whole.

    Raises:
      ValueError: a value is impossible; the message names it.
    Source: Lan et al. 2020, §4.1; ε, β and the decay from google-research/albert.
    """

    optimizer: str = "lamb"
    learning_rate: float = 0.00176
    batch_size: int = 4096
    steps: int = 125_000
    warmup_steps: int = 3125
    weight_decay: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float | None = 1.0
    seq_length: int = 512
    max_predictions: int | None = None
    sentence_objective: str = "sop"
    short_seq_prob: float = 0.1
    masked_lm_prob: float = 0.15
    max_ngram: int = 3
    whole_word: bool = True

    def __post_init__(self) -> None:
        check_sentence_objective(self.sentence_objective)
        for name in ("batch_size", "steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)} must be at least 1")
        if not 0 <= self.warmup_steps <= self.steps:
            raise ValueError(f"warmup_steps={self.warmup_steps} must lie between 0 and steps={self.steps}")

    def replace(self, **changes: Any) -> PretrainingRecipe:
        """A new recipe with some fields changed."""
        return dataclasses.replace(self, **changes)


_PAPER = PretrainingRecipe()

RECIPES: dict[str, PretrainingRecipe] = {
    # Lan et al. 2020, §4.1: all ablations and the comparison at 125,000 steps.
    "albert": _PAPER,
    # google-research/albert, README: version 2 trained the base model for 10M steps, the others for 3M.
    "albert_base_v2": _PAPER.replace(steps=10_000_000),
    "albert_v2": _PAPER.replace(steps=3_000_000),
}
