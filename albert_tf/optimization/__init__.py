"""LAMB, AdamW and their learning-rate schedule, as google-research/albert computes them."""

from __future__ import annotations

from typing import Any

from albert_tf.errors import InputError
from albert_tf.optimization.adamw import AdamW, global_norm
from albert_tf.optimization.lamb import Lamb
from albert_tf.optimization.schedules import WarmupPolynomialDecay

OPTIMIZERS = {"lamb": Lamb, "adamw": AdamW}

__all__ = [
    "OPTIMIZERS",
    "AdamW",
    "Lamb",
    "WarmupPolynomialDecay",
    "create_optimizer",
    "global_norm",
    "recipe_optimizer",
]


def create_optimizer(
    name: str,
    *,
    init_lr: float,
    num_train_steps: int,
    num_warmup_steps: int = 0,
    weight_decay: float = 0.01,
    power: float = 1.0,
    clip_norm: float | None = 1.0,
    decay_after_warmup: bool = False,
    **kwargs: Any,
) -> AdamW:
    """The optimizer and schedule that google-research/albert trains with.

    Args:
      name: "lamb" or "adamw".
      init_lr: rate that the warm-up climbs to and the decay starts from.
      num_train_steps: steps after which the rate stays 0.
      num_warmup_steps: steps of linear warm-up, at most num_train_steps; the first rate is 0.
      weight_decay: decay of the variables that are neither LayerNorm's nor biases.
      power: exponent of the decay; 1 is linear.
      clip_norm: largest global norm of the summed gradients; None leaves them as they are.
      decay_after_warmup: whether the decay starts where the warm-up ends, instead of at step 0 as Google's.
      **kwargs: further arguments of the optimizer (beta_1, beta_2, epsilon, …).
    Returns:
      The optimizer.
    Raises:
      ValueError: the name is unknown or a value impossible; the message names it.
    """
    if name not in OPTIMIZERS:
        raise InputError(f"optimizer={name!r} is none of {', '.join(OPTIMIZERS)}")
    schedule = WarmupPolynomialDecay(init_lr, num_train_steps, num_warmup_steps, power, decay_after_warmup)
    return OPTIMIZERS[name](schedule, weight_decay=weight_decay, global_clipnorm=clip_norm, **kwargs)


# What recipes say of the optimizer, besides its rate and steps, under create_optimizer's names.
_SETTINGS = ("weight_decay", "clip_norm", "beta_1", "beta_2", "epsilon")


def recipe_optimizer(name: str, recipe: Any, steps: int, warmup_steps: int) -> AdamW:
    """The optimizer of a recipe.

    Args:
      name: "lamb" or "adamw".
      recipe: of pre-training or fine-tuning.
      steps: updates until the rate is 0.
      warmup_steps: of linear warm-up.
    """
    settings = {setting: getattr(recipe, setting) for setting in _SETTINGS}
    rates = {"init_lr": recipe.learning_rate, "num_train_steps": steps, "num_warmup_steps": warmup_steps}
    return create_optimizer(name, **rates, **settings)
