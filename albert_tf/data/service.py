"""Batches that a tf.data service makes, on hosts of its own."""

from __future__ import annotations

import socket
import urllib.parse

import tensorflow as tf

from albert_tf.utils.errors import InputError


def served(batches: tf.data.Dataset, address: str | None) -> tf.data.Dataset:
    """Batches as a service makes them; these themselves without one.

    Args:
      batches: of a pipeline whose outermost dataset is the epochs, which its workers divide.
      address: of the service, grpc://host:port, or None.
    Raises:
      ConnectionError: nobody listens there.
    """
    if address is None:
        return batches
    _check_service(address)
    dynamic = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return batches.apply(tf.data.experimental.service.distribute(dynamic, address))


def _check_service(data_service: str, seconds: float = 10) -> None:
    """ConnectionError if nobody listens at a tf.data service's address: TensorFlow would try for ever."""
    address = urllib.parse.urlsplit(data_service)
    try:
        if address.scheme != "grpc" or address.port is None:
            raise InputError("it is not grpc://host:port")
        socket.create_connection((address.hostname or "", address.port), timeout=seconds).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"data_service={data_service!r} does not answer ({error}): start its dispatcher, or correct the "
            "address"
        ) from error
