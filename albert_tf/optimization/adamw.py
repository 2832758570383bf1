"""AdamW as google-research/albert computes it: Adam with decoupled weight decay."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.errors import InputError, check_range

# Variables that google-research/albert neither decays nor adapts by layer.
NO_WEIGHT_DECAY = ("LayerNorm", "layer_norm", "bias")

# Divisors of m and v.
BiasCorrections = tuple[tf.Tensor | float, tf.Tensor | float]


def adamw(
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
    """One AdamW step: x - η (m̂ / (√v̂ + ε) + λx).

    Args:
      x: the variable; g, m and v have its shape.
      g: gradient.
      m: running mean of g.
      v: running mean of g².
      lr: learning rate η.
      beta_1: decay rate β₁ of m.
      beta_2: decay rate β₂ of v.
      epsilon: ε, added to √v̂.
      decay: weight decay λ.
      bias_corrections: divisors of m and v. With bias correction they are 1 - β₁ᵗ and 1 - β₂ᵗ in step t.
    Returns:
      The next x, m and v.
    Source: Loshchilov and Hutter 2019, algorithm 2.
    Note: google-research/albert leaves out the bias correction.
    """
    m, v = adam_moments(g, m, v, beta_1, beta_2)
    return x - lr * (adam_direction(m, v, epsilon, bias_corrections) + decay * x), m, v


# XLA compiles the maths once for each shape: one pass through memory, without intermediate tensors. Only the
# maths, since a compiled `apply_gradients` fails under MirroredStrategy.
compile_update = functools.partial(tf.function, jit_compile=True, autograph=False)

compiled_adamw = compile_update(adamw)


def adam_moments(
    g: tf.Tensor, m: tf.Tensor, v: tf.Tensor, beta_1: float, beta_2: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """The next m and v. See `adamw` for the arguments."""
    return beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * tf.square(g)


def adam_direction(
    m: tf.Tensor, v: tf.Tensor, epsilon: float, bias_corrections: BiasCorrections
) -> tf.Tensor:
    """m̂ / (√v̂ + ε), where m̂ and v̂ are m and v divided by `bias_corrections`. See `adamw`."""
    return m / bias_corrections[0] / (tf.sqrt(v / bias_corrections[1]) + epsilon)


def is_excluded(name: str, patterns: Iterable[str]) -> bool:
    """True if a variable's name, without its `:0`, contains a match of any pattern.

    >>> is_excluded("cls/predictions/output_bias:0", ["LayerNorm", "bias$"])
    True
    """
    return any(re.search(pattern, name.partition(":")[0]) for pattern in patterns)


def pattern_tuple(name: str, patterns: Sequence[str]) -> tuple[str, ...]:
    """Regular expressions as a tuple. Raises InputError for a text, whose letters they would be."""
    if isinstance(patterns, str):
        raise InputError(f"{name}={patterns!r} is one text: write a list, [{patterns!r}]")
    return tuple(patterns)


def global_norm(gradients: Iterable[tf.Tensor | tf.IndexedSlices | None]) -> tf.Tensor:
    """Computes the global norm of gradients, √(Σ g²).

    Args:
      gradients: tensors, IndexedSlices or None. Rows that occur several times in IndexedSlices are summed
        first, as the update sums them. None counts as 0.
    Returns:
      float32 scalar.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> float(albert_tf.optimization.global_norm([tf.constant([3.0]), tf.constant([4.0]), None]))
      5.0
    """
    return tf.linalg.global_norm([_to_dense(g) for g in gradients])


def _to_dense(gradient: tf.Tensor | tf.IndexedSlices | None) -> tf.Tensor | None:
    return None if gradient is None else tf.convert_to_tensor(gradient)


@keras.utils.register_keras_serializable(package="albert_tf")
class AdamW(keras.optimizers.Optimizer):
    """AdamW as google-research/albert computes it: Adam with decoupled weight decay, without bias correction.

    Args:
      learning_rate: a number or a Keras schedule.
      weight_decay: weight decay λ of the variables that are not excluded. None: 0.
      beta_1: decay rate β₁ of the running mean of the gradient.
      beta_2: decay rate β₂ of the running mean of the squared gradient.
      epsilon: ε, added to the root of the second mean.
      global_clipnorm: largest norm of all gradients together. None: no clipping.
      exclude_from_weight_decay: regular expressions. A variable is not decayed if one matches a part of its
        name. Default: LayerNorm and biases.
      bias_correction: True to divide the running means by 1 - β₁ᵗ and 1 - β₂ᵗ in step t, as Keras and PyTorch
        do. Without it, as in Google's code, the first updates are larger, up to 6.6 times with the default
        decay rates.
      name: name of the optimizer.
      **kwargs: arguments of `keras.optimizers.Optimizer`.
    Raises:
      InputError: a value is impossible; the message names it.
    Note: Google clips a sparse gradient by the norm of its unsummed rows. Here it is made dense first.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> variable = tf.Variable([3.0, 4.0])
      >>> optimizer = albert_tf.optimization.AdamW(learning_rate=0.5, weight_decay=0.25)
      >>> _ = optimizer.apply_gradients([(tf.constant([0.0, 0.0]), variable)])
      >>> variable.numpy().tolist()  # the gradient is 0: only the decay acts
      [2.625, 3.5]
    """

    def __init__(
        self,
        learning_rate: Any = 3e-5,
        weight_decay: float | None = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        global_clipnorm: float | None = 1.0,
        exclude_from_weight_decay: Sequence[str] = NO_WEIGHT_DECAY,
        bias_correction: bool = False,
        name: str = "AdamW",
        **kwargs: Any,
    ):
        weight_decay = 0.0 if weight_decay is None else weight_decay  # as Keras' optimizers take it
        if isinstance(learning_rate, int | float):
            check_range("learning_rate", learning_rate, at_least=0, below=float("inf"))
        check_range("beta_1", beta_1, at_least=0, below=1)
        check_range("beta_2", beta_2, at_least=0, below=1)
        check_range("weight_decay", weight_decay, at_least=0, below=float("inf"))
        check_range("epsilon", epsilon, above=0, below=float("inf"))
        if global_clipnorm is not None:
            check_range("global_clipnorm", global_clipnorm, above=0, at_most=float(tf.float32.max))
        for clip in ("clipnorm", "clipvalue"):
            if kwargs.get(clip) is not None and global_clipnorm is not None:
                problem = f"{clip}={kwargs[clip]}: of no effect beside global_clipnorm={global_clipnorm}"
                raise InputError(f"{problem}: pass global_clipnorm=None, too")
        # Keras turns it on where there is a GPU, around all of the update.
        kwargs.setdefault("jit_compile", False)
        super().__init__(name=name, weight_decay=weight_decay, global_clipnorm=global_clipnorm, **kwargs)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.bias_correction = bias_correction
        self._undecayed_patterns = pattern_tuple("exclude_from_weight_decay", exclude_from_weight_decay)

    def build(self, var_list: Sequence[tf.Variable]) -> None:
        """Creates m and v, zeros, for each variable, unless they exist."""
        super().build(var_list)
        if getattr(self, "_built", False):
            return
        self._m = [self.add_variable_from_reference(variable, "m") for variable in var_list]
        self._v = [self.add_variable_from_reference(variable, "v") for variable in var_list]
        # Decided here by name: in an update, the variables of a replica have other names.
        self._decay_rates = tuple(self._decay_rate(variable) for variable in var_list)
        self._update_rules = tuple(self._update_rule(variable) for variable in var_list)
        self._built = True

    def _decay_rate(self, variable: tf.Variable) -> float:
        # Keras' own exclusions, set by its method exclude_from_weight_decay(), apply as well.
        is_decayed = self._use_weight_decay(variable) and not is_excluded(
            variable.name, self._undecayed_patterns
        )
        return self.weight_decay if is_decayed else 0.0

    def _update_rule(self, variable: tf.Variable) -> Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        return compiled_adamw

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, tf.Variable]], *args: Any, **kwargs: Any
    ) -> Any:
        """Updates the variables. Gradients are made dense, summed over the replicas and clipped first."""
        pairs = [(_to_dense(gradient), variable) for gradient, variable in grads_and_vars]
        return super().apply_gradients(pairs, *args, **kwargs)

    def _apply_weight_decay(self, variables: Sequence[tf.Variable]) -> None:
        """Does nothing: the update includes the decay. Keras would shrink the variables before it."""

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable) -> None:
        """Updates a variable and its m and v."""
        index = self._index_dict[self._var_key(variable)]
        targets = variable, self._m[index], self._v[index]
        # Read here: inside the compiled rule, a mirrored variable would not give this replica's value.
        x, m, v = map(tf.convert_to_tensor, targets)
        lr = tf.cast(self.learning_rate, variable.dtype)
        settings = lr, self.beta_1, self.beta_2, self.epsilon, self._decay_rates[index]
        corrections = self._bias_corrections(variable.dtype)
        values = self._update_rules[index](x, gradient, m, v, *settings, corrections)
        for target, value in zip(targets, values, strict=True):
            target.assign(value)

    def _bias_corrections(self, dtype: tf.DType) -> BiasCorrections:
        """Divisors of m and v in this step."""
        if not self.bias_correction:
            return 1.0, 1.0
        step = tf.cast(self.iterations + 1, dtype)
        return 1 - tf.pow(self.beta_1, step), 1 - tf.pow(self.beta_2, step)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the schedule, for `from_config`."""
        return {
            **super().get_config(),
            "learning_rate": self._serialize_hyperparameter(self._learning_rate),
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "exclude_from_weight_decay": list(self._undecayed_patterns),
            "bias_correction": self.bias_correction,
        }
