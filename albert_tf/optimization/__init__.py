"""LAMB, AdamW and their learning-rate schedule, as google-research/albert computes them."""

from __future__ import annotations

from typing import Any

from albert_tf.errors import check_choice
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
    """Creates the optimizer of google-research/albert with its learning-rate schedule.

    Args:
      name: "lamb" or "adamw".
      init_lr: highest learning rate of the schedule; see `WarmupPolynomialDecay`.
      num_train_steps: number of training steps, after which the learning rate is 0.
      num_warmup_steps: number of steps of linear warm-up.
      weight_decay: weight decay λ. LayerNorm and biases are not decayed.
      power: exponent of the decay. 1 is linear.
      clip_norm: largest global norm of the gradients. None: no clipping.
      decay_after_warmup: True to start the decay where the warm-up ends. False: at step 0, as Google's code.
      **kwargs: further arguments of `Lamb` or `AdamW`, such as `beta_1`, `beta_2` and `epsilon`.
    Returns:
      A Keras optimizer, `Lamb` or `AdamW`.
    Raises:
      InputError: the name is unknown or a value is impossible; the message names it.

    Example:
      >>> import albert_tf
      >>> optimizer = albert_tf.optimization.create_optimizer(
      ...     "lamb", init_lr=0.00176, num_train_steps=125_000, num_warmup_steps=3125
      ... )
      >>> optimizer.name
      'Lamb'
    """
    check_choice("optimizer", name, OPTIMIZERS)
    schedule = WarmupPolynomialDecay(init_lr, num_train_steps, num_warmup_steps, power, decay_after_warmup)
    return OPTIMIZERS[name](schedule, weight_decay=weight_decay, global_clipnorm=clip_norm, **kwargs)


def recipe_optimizer(name: str, recipe: Any, steps: int, warmup_steps: int, **kwargs: Any) -> AdamW:
    """Creates the optimizer of a recipe. See `create_optimizer` for `name` and `**kwargs`.

    Args:
      name: "lamb" or "adamw".
      recipe: has `learning_rate`, `weight_decay`, `clip_norm`, `beta_1`, `beta_2` and `epsilon`.
      steps: number of training steps.
      warmup_steps: number of steps of linear warm-up.
      **kwargs: further arguments of `create_optimizer`.
    """
    names = ("weight_decay", "clip_norm", "beta_1", "beta_2", "epsilon")
    kwargs |= {"num_warmup_steps": warmup_steps, **{key: getattr(recipe, key) for key in names}}
    return create_optimizer(name, init_lr=recipe.learning_rate, num_train_steps=steps, **kwargs)
