"""Base class of exported modules: a Reusable SavedModel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf


class Module(tf.train.Checkpoint):
    """An object that `tf.saved_model.save` writes and `hub.KerasLayer` reads with all its weights.

    A subclass adds a class-level `__call__`, a tf.function traced for every permitted argument: KerasLayer
    finds no trainable weights in a plain tf.Module. Keras objects stay in the closures of those functions, so
    that what is saved depends on no Keras. Variables are all that any call uses, in the source model's order;
    all can be trained, or none where some are int8.
    """

    def __init__(self, variables: Iterable[tf.Variable] = ()):
        super().__init__()
        self.variables = list(variables)
        has_int8 = any(variable.dtype == tf.int8 for variable in self.variables)
        self.trainable_variables = [] if has_int8 else list(self.variables)
        self.regularization_losses: list[tf.types.experimental.GenericFunction] = []


def ids_spec(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Inputs by name, int32 [B, any length] each."""
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
