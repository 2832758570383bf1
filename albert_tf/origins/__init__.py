"""Starts of the weights of a new model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from albert_tf.checkpoints.origin import HUB
from albert_tf.utils.lazy import lazy_names

if TYPE_CHECKING:
    from albert_tf.origins.start import Start, opened, published_run, run_at, start_of_run

__all__ = ["HUB", "Start", "opened", "published_run", "run_at", "start_of_run"]

# At their first use, since other people's formats need libraries that not all need.
__getattr__ = lazy_names(__name__, dict.fromkeys(__all__[1:], "albert_tf.origins.start"))
