"""Models in another float type than the one they were trained in."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.checkpoints import build_model, task_of
from albert_tf.utils.checks import check_choice
from albert_tf.utils.choices import EXPORTED_DTYPES


def in_dtype(model: keras.Model, dtype: str) -> keras.Model:
    """A copy that holds its variables and computes in a float type, but for LayerNorm and softmax.

    Args:
      model: float32, any that a run can hold; itself is returned for float32.
      dtype: one of EXPORTED_DTYPES, else there is an InputError.
    """
    check_choice("dtype", dtype, EXPORTED_DTYPES)
    if dtype == "float32":
        return model
    narrow = tf.as_dtype(dtype)

    def narrow_variable(create: Any, **kwargs: Any) -> tf.Variable:
        if kwargs["dtype"] != tf.float32:  # Keras counts steps
            return create(**kwargs)
        value = kwargs["initial_value"]
        return create(**{**kwargs, "dtype": narrow, "initial_value": lambda: tf.cast(value(), narrow)})

    with tf.variable_creator_scope(narrow_variable):
        copy = build_model(model.config, task_of(model), dtype=dtype)
    for target, source in zip(copy.variables, model.variables, strict=True):
        target.assign(tf.cast(source, narrow))
    return copy
