"""Batches that a tf.data service makes, on hosts of its own."""

from __future__ import annotations

import socket
import urllib.parse

import tensorflow as tf


def served(batches: tf.data.Dataset, address: str | None) -> tf.data.Dataset:
    """Batches as a service makes them, whose workers divide the outermost dataset; without one as they are.

    Raises:
      ConnectionError: nobody listens at the address, grpc://host:port; TensorFlow would try for ever.
    """
    if address is None:
        return batches
    try:
        place = urllib.parse.urlsplit(address)
        socket.create_connection((place.hostname or "", place.port or 0), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"data_service={address!r} does not answer ({error}): start its dispatcher, or correct the "
            "address, grpc://host:port"
        ) from error
    dynamic = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return batches.apply(tf.data.experimental.service.distribute(dynamic, address))
