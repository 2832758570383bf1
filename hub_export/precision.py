"""Models in another float type than the one they were trained in."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.checkpoints import build_model, task_of
from albert_tf.utils.checks import check_choice
from albert_tf.utils.choices import PRECISIONS


def in_dtype(model: keras.Model, dtype: str) -> keras.Model:
    """A copy of a float32 model that holds its variables in a type of PRECISIONS and computes in it.

    LayerNorm and softmax stay in float32. For float32 the model itself is returned.
    """
    check_choice("dtype", dtype, PRECISIONS)
    if dtype == "float32":
        return model

    values = {variable.name.removesuffix(":0"): variable for variable in model.variables}

    def narrow(create: Any, **kwargs: Any) -> tf.Variable:
        if kwargs["dtype"] == tf.float32:  # Keras counts steps
            kwargs |= {"dtype": dtype, "initial_value": tf.cast(kwargs["initial_value"], dtype)}
        return create(**kwargs)

    with tf.variable_creator_scope(narrow):
        return build_model(model.config, task_of(model), values.get, dtype=dtype)
