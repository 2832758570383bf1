"""LAMB (You et al. 2020) as google-research/albert computes it: AdamW with trust ratios."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.optimization.adamw import (
    AdamW,
    BiasCorrections,
    adam_direction,
    adam_moments,
    compile_update,
    compiled_adamw,
    is_excluded,
    pattern_tuple,
)


def lamb(
    x: tf.Tensor,
    g: tf.Tensor,
    m: tf.Tensor,
    v: tf.Tensor,
    lr: tf.Tensor,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    decay: float,
    bias_corrections: BiasCorrections = (1.0, 1.0),
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One LAMB step: x - η (‖x‖ / ‖r + λx‖) (r + λx) with r = m̂ / (√v̂ + ε).

    See `adamw` for the arguments and results.

    Source: You et al. 2020 (arXiv 1904.00962), algorithm 2, with φ the identity.
    Note: google-research/albert leaves out the bias correction of m and v.
    """
    m, v = adam_moments(g, m, v, beta_1, beta_2)
    u = adam_direction(m, v, epsilon, bias_corrections) + decay * x
    return x - trust_ratio(x, u) * lr * u, m, v


compiled_lamb = compile_update(lamb)


def trust_ratio(x: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """‖x‖ / ‖u‖, or 1 if either norm is 0, so that a variable of zeros can change; a scalar."""
    x_norm, u_norm = tf.norm(x), tf.norm(u)
    return tf.where((x_norm > 0) & (u_norm > 0), x_norm / u_norm, tf.ones_like(x_norm))


@keras.utils.register_keras_serializable(package="albert_tf")
class Lamb(AdamW):
    """LAMB as google-research/albert computes it: AdamW with a trust ratio for each variable.

    Args:
      learning_rate: a number or a Keras schedule.
      weight_decay: weight decay λ of the variables that are not excluded.
      exclude_from_layer_adaptation: regular expressions. A variable has no trust ratio, and moves as in
        AdamW, if one matches a part of its name. None: the value of `exclude_from_weight_decay`.
      name: name of the optimizer.
      **kwargs: further arguments of `AdamW`: `beta_1`, `beta_2`, `epsilon`, `global_clipnorm`,
        `exclude_from_weight_decay` (default: LayerNorm and biases) and `bias_correction`.
    Raises:
      InputError: a value is impossible; the message names it.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> variable = tf.Variable([3.0, 4.0])
      >>> optimizer = albert_tf.optimization.Lamb(learning_rate=0.5, weight_decay=0.25)
      >>> _ = optimizer.apply_gradients([(tf.constant([0.0, 0.0]), variable)])
      >>> variable.numpy().tolist()  # it moves by half of its norm
      [1.5, 2.0]
    """

    def __init__(
        self,
        learning_rate: Any = 0.00176,
        weight_decay: float | None = 0.01,
        *,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "Lamb",
        **kwargs: Any,
    ):
        super().__init__(learning_rate, weight_decay, name=name, **kwargs)
        if exclude_from_layer_adaptation is None:
            exclude_from_layer_adaptation = self._undecayed_patterns
        self._unadapted_patterns = pattern_tuple(
            "exclude_from_layer_adaptation", exclude_from_layer_adaptation
        )

    def _update_rule(self, variable: tf.Variable) -> Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        return compiled_adamw if is_excluded(variable.name, self._unadapted_patterns) else compiled_lamb

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the schedule, for `from_config`."""
        return {**super().get_config(), "exclude_from_layer_adaptation": list(self._unadapted_patterns)}
