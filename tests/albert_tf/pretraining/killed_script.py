"""The command line, killed by SIGKILL in the middle of something; run by test_killed.py.

    python killed_script.py MOMENT COUNT COMMAND…

MOMENT is one of MOMENTS, and COUNT says which time it is the last.
"""

import os
import signal
import sys
from pathlib import Path

import tensorflow as tf

from albert_tf import cli
from albert_tf.training import loop
from albert_tf.training.metrics_logger import MetricsLogger


def die() -> None:
    """Ends this process without a chance to do anything."""
    os.kill(os.getpid(), signal.SIGKILL)


def cut_off(prefix: str) -> None:
    """Leaves half of a checkpoint's data."""
    data = Path(f"{prefix}.data-00000-of-00001")
    os.truncate(data, data.stat().st_size // 2)


def half_a_line(logbook: MetricsLogger, step: int, figures: dict) -> None:
    """Leaves a line of metrics.jsonl without its end."""
    logbook._jsonl.write('{"step": 9, "loss": 7.')
    logbook._jsonl.flush()


# What is interrupted: a method, which of its calls count, and what is left behind them.
MOMENTS = {
    "updating": (loop._Loop, "train", lambda *_: True, None),
    "writing the data": (tf.train.Checkpoint, "write", lambda *_: True, lambda _, prefix: cut_off(prefix)),
    "before the first file is renamed": (tf.train.Checkpoint, "write", lambda *_: True, None),
    "before the index is renamed": (tf.io.gfile, "rename", lambda path, *_, **__: ".data-" in path, None),
    "deleting an old checkpoint": (tf.io.gfile, "remove", lambda path: path.endswith(".index"), None),
    "logging": (MetricsLogger, "record", lambda *_: True, half_a_line),
}


def interrupt(moment: str, count: int) -> None:
    """Makes the process die behind a certain call."""
    owner, name, counts, leave = MOMENTS[moment]
    original = getattr(owner, name)
    left = [count]

    def method(*arguments, **keywords):
        result = original(*arguments, **keywords)
        left[0] -= counts(*arguments, **keywords)
        if left[0] == 0:
            if leave:
                leave(*arguments)
            die()
        return result

    setattr(owner, name, method)


if __name__ == "__main__":
    interrupt(sys.argv[1], int(sys.argv[2]))
    sys.exit(cli.run(sys.argv[3:]))
