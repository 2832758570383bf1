"""Beam worker processes of `prepare`, with `--direct_running_mode=multi_processing` or on a cluster."""

from __future__ import annotations

import os

from albert_tf.signals import quiet_start


def import_tasks() -> None:
    """Imports the modules that the tasks need, without the warnings of Beam and TensorFlow."""
    with quiet_start():
        import albert_tf.data.prepare  # noqa: F401


def main() -> None:
    """Runs tasks until the command that started this process ends, without Beam's log."""
    import_tasks()
    from apache_beam.runners.worker import sdk_worker_main

    # Beam sends errors to the command; its log would repeat them here, with all its INFO lines.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sdk_worker_main.main([])


if __name__ == "__main__":
    main()
