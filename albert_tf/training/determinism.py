"""Determinism: the same computation gives the same bits, also where a device adds up in any order."""

from __future__ import annotations

import tensorflow as tf


def make_deterministic() -> None:
    """Makes every operation of this process deterministic, which TensorFlow cannot undo.

    To be called before anything is built. On CPUs it changes no result, only the speed of the input.
    """
    tf.config.experimental.enable_op_determinism()
