"""Base class of exported modules: a Reusable SavedModel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import tensorflow as tf


class Module(tf.train.Checkpoint):
    """An object that `tf.saved_model.save` writes and `hub.KerasLayer` reads with all its weights.

    A subclass adds a class-level `__call__`, a tf.function traced for every permitted argument: KerasLayer
    finds no trainable weights in a plain tf.Module. Keras objects stay in the closures of those functions, so
    that what is saved depends on no Keras. Variables are all that any call uses, in the source model's order;
    all can be trained.
    """

    def __init__(self, variables: Iterable[tf.Variable] = ()):
        super().__init__()
        self.variables = list(variables)
        self.trainable_variables = list(self.variables)
        self.regularization_losses: list[tf.types.experimental.GenericFunction] = []


def ids_spec(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Inputs by name, int32 [B, any length] each."""
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}
