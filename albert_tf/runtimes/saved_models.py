"""Functions of TensorFlow in OpenVINO, by way of a SavedModel."""

from __future__ import annotations

import tempfile
from typing import Any

import tensorflow as tf


def converted_function(function: tf.types.experimental.ConcreteFunction) -> Any:
    """A function from tensors to tensors by name as OpenVINO's network.

    OpenVINO 2026.4 converts functions themselves, too, but not on Python 3.13.
    """
    import openvino

    module = tf.Module()
    module.held = function.variables
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=function)
        return openvino.convert_model(folder)
