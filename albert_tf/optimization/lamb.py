"""LAMB (You et al. 2020) as google-research/albert computes it: AdamW with a trust ratio a variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.optimization.adamw import EXCLUDED, AdamW, adam_moments, adamw, is_excluded


def lamb(
    x: tf.Tensor,
    g: tf.Tensor,
    m: tf.Tensor,
    v: tf.Tensor,
    *,
    lr: tf.Tensor,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    decay: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """One LAMB step: x - η (‖x‖ / ‖r + λx‖) (r + λx) with r = m / (√v + ε).

    Args:
      x: the variable; g, m and v have its shape.
      g: gradient.
      m: running mean of g.
      v: running mean of g².
      lr: learning rate η.
      beta_1: decay rate β₁ of m.
      beta_2: decay rate β₂ of v.
      epsilon: ε, added to √v.
      decay: weight decay λ.
    Returns:
      The next x, m and v.
    Source: You et al. 2020 (arXiv 1904.00962), algorithm 2, with φ the identity.
    Note: google-research/albert leaves out the bias correction of m and v.
    """
    m, v = adam_moments(g, m, v, beta_1, beta_2)
    u = m / (tf.sqrt(v) + epsilon) + decay * x
    return x - trust_ratio(x, u) * lr * u, m, v


def trust_ratio(x: tf.Tensor, u: tf.Tensor) -> tf.Tensor:
    """‖x‖ / ‖u‖, and 1 where either norm is 0, so that a variable of zeros can leave zero; a scalar."""
    x_norm, u_norm = tf.norm(x), tf.norm(u)
    return tf.where((x_norm > 0) & (u_norm > 0), x_norm / u_norm, tf.ones_like(x_norm))


@keras.utils.register_keras_serializable(package="albert_tf")
class Lamb(AdamW):
    """LAMB of google-research/albert.

    Variables that are left out of the layer adaptation, by default LayerNorm's and biases, move as in AdamW.

    Args:
      learning_rate: a number or a Keras schedule.
      weight_decay: λ, for the variables that are not excluded.
      beta_1: decay rate β₁ of the gradient's running mean.
      beta_2: decay rate β₂ of the squared gradient's running mean.
      epsilon: ε, added to the root of the latter.
      global_clipnorm: largest norm of all gradients together; None leaves them as they are.
      exclude_from_weight_decay: regular expressions; a variable whose name contains a match is not decayed.
      exclude_from_layer_adaptation: the same for the trust ratio; None means the same patterns.
      name: name of the optimizer.
      **kwargs: further arguments of keras.optimizers.Optimizer.
    """

    def __init__(
        self,
        learning_rate: Any = 0.00176,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        global_clipnorm: float | None = 1.0,
        exclude_from_weight_decay: Sequence[str] = EXCLUDED,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        name: str = "Lamb",
        **kwargs: Any,
    ):
        super().__init__(
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            beta_1=beta_1,
            beta_2=beta_2,
            epsilon=epsilon,
            global_clipnorm=global_clipnorm,
            exclude_from_weight_decay=exclude_from_weight_decay,
            name=name,
            **kwargs,
        )
        if exclude_from_layer_adaptation is None:
            exclude_from_layer_adaptation = exclude_from_weight_decay
        self._unadapted_patterns = tuple(exclude_from_layer_adaptation)

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Creates m and v, zeros, for each variable, unless they exist."""
        if not getattr(self, "_built", False):
            self._rules = tuple(
                adamw if is_excluded(variable.name, self._unadapted_patterns) else lamb
                for variable in var_list
            )
        super().build(var_list)

    def _step(
        self, index: int, x: tf.Tensor, g: tf.Tensor, m: tf.Tensor, v: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return self._rules[index](x, g, m, v, decay=self._decays[index], **self._letters(x.dtype))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, the schedule among them, ready for `from_config`."""
        return {**super().get_config(), "exclude_from_layer_adaptation": list(self._unadapted_patterns)}
