"""What every command does first: parse flags, and start TensorFlow without its messages."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage above it, and that takes no empty value.

    An empty path is the current folder, which whoever types an unset variable of the shell does not mean.
    """

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        """What argparse makes of a command line; it ends the program with status 2 where a value is empty."""
        found, others = super().parse_known_args(*args, **kwargs)
        for action in self._actions:
            value = getattr(found, action.dest, None)
            if value == "" or (isinstance(value, list) and "" in value):
                self.error(f"{'/'.join(action.option_strings) or action.dest} is empty: give it a value")
        return found, others

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        self.exit(2, f"{self.prog}: {message} (--help lists the flags)\n")


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
        except Exception:
            held_back.seek(0)
            os.write(stderr, held_back.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
