"""TensorFlow's start without its messages, for commands whose own lines are to be read."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Keeps what is written to stderr while TensorFlow is imported and finds its devices.

    No setting silences what it says before its log is configured: lines about oneDNN and CUDA, on every
    machine. They are shown only if the block raises.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # for what comes after
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held_back:
        os.dup2(held_back.fileno(), 2)
        try:
            yield
            import tensorflow as tf

            tf.config.list_physical_devices()
        except BaseException:
            held_back.seek(0)
            os.write(stderr, held_back.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
