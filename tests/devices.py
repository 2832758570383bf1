"""The device that tests compute on, and what differs there."""

import contextlib

import pytest
import tensorflow as tf


def kind() -> str:
    """ "GPU" if TensorFlow sees one, where it then computes, else "CPU"."""
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def refused_ids(match: str) -> contextlib.AbstractContextManager:
    """Expects the error of ids outside a table, which CPUs alone have: a GPU reads zeros there."""
    if kind() == "GPU":
        return contextlib.nullcontext()
    return pytest.raises(tf.errors.InvalidArgumentError, match=match)
