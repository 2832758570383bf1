"""Where the weights of a new model begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from albert_tf.lazy import lazy_names

if TYPE_CHECKING:
    from albert_tf.origins.record import HUB, origin_record
    from albert_tf.origins.start import Start, opened, published_run, start_of_run

__all__ = ["HUB", "Start", "opened", "origin_record", "published_run", "start_of_run"]

# At their first use, since other people's formats need libraries that not all need.
_MODULES = {
    **dict.fromkeys(__all__, "albert_tf.origins.start"),
    **dict.fromkeys(("HUB", "origin_record"), "albert_tf.origins.record"),
}
__getattr__ = lazy_names(__name__, _MODULES)
