"""The learning rate over the steps: linear warm-up, then polynomial decay to zero."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.errors import InputError, check_range


@keras.utils.register_keras_serializable(package="albert_tf")
class WarmupPolynomialDecay(keras.optimizers.schedules.LearningRateSchedule):
    """A learning-rate schedule: linear warm-up, then polynomial decay to 0.

    Args:
      init_lr: learning rate that the warm-up rises to and the decay starts from.
      num_train_steps: number of steps after which the learning rate stays 0.
      num_warmup_steps: number of steps of the warm-up, at most `num_train_steps`. The first learning rate is
        0.
      power: exponent of the decay. 1 is linear.
      decay_after_warmup: True to start the decay where the warm-up ends. False: at step 0, as Google's code.
    Raises:
      InputError: a value is impossible; the message names it.
    Note: Without `decay_after_warmup` the decay already runs during the warm-up, as in
      google-research/albert. The learning rate continues after the warm-up at init_lr · (1 - num_warmup_steps
      / num_train_steps)^power, so `init_lr` is never reached.
    Source: create_optimizer in google-research/albert's optimization.py.

    Example:
      >>> import albert_tf
      >>> schedule = albert_tf.optimization.WarmupPolynomialDecay(0.5, num_train_steps=4, num_warmup_steps=1)
      >>> [float(schedule(step)) for step in range(5)]
      [0.0, 0.375, 0.25, 0.125, 0.0]
    """

    def __init__(
        self,
        init_lr: float,
        num_train_steps: int,
        num_warmup_steps: int = 0,
        power: float = 1.0,
        decay_after_warmup: bool = False,
    ):
        check_range("init_lr", init_lr, at_least=0, below=float("inf"))
        check_range("num_train_steps", num_train_steps, at_least=1)
        check_range("num_warmup_steps", num_warmup_steps, at_least=0, at_most=num_train_steps)
        for name, steps in (("num_train_steps", num_train_steps), ("num_warmup_steps", num_warmup_steps)):
            if steps != int(steps):
                raise InputError(f"{name}={steps} must be a whole number of steps: round it")
        check_range("power", power, above=0, below=float("inf"))
        self.init_lr = init_lr
        self.num_train_steps = int(num_train_steps)
        self.num_warmup_steps = int(num_warmup_steps)
        self.power = power
        self.decay_after_warmup = decay_after_warmup

    def __call__(self, step: tf.Tensor | int) -> tf.Tensor:
        """Returns the learning rate of one step.

        Args:
          step: number of steps already done, an int or an integer scalar.
        Returns:
          float32 scalar.
        """
        with tf.name_scope("learning_rate"):
            # Subtract 64-bit integers: float32 could not tell the last of millions of steps apart.
            step = tf.cast(step, tf.int64)
            decay_start = self.num_warmup_steps if self.decay_after_warmup else 0
            steps_left = tf.cast(tf.maximum(self.num_train_steps - step, 0), tf.float32)
            decayed = self.init_lr * (steps_left / max(self.num_train_steps - decay_start, 1)) ** self.power
            warming_up = self.init_lr * (tf.cast(step, tf.float32) / max(self.num_warmup_steps, 1))
            return tf.where(step < self.num_warmup_steps, warming_up, decayed)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, for `from_config`."""
        names = ("init_lr", "num_train_steps", "num_warmup_steps", "power", "decay_after_warmup")
        return {name: getattr(self, name) for name in names}


# In HDF5 files Keras stores schedules without the package's name.
keras.utils.get_custom_objects()[WarmupPolynomialDecay.__name__] = WarmupPolynomialDecay
