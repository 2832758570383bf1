"""Processes that work for `prepare`: those of `--direct_running_mode=multi_processing`, and of a cluster."""

from __future__ import annotations

import os

from albert_tf.process import quiet_start


def import_tasks() -> None:
    """Imports what the tasks need, without what Beam and TensorFlow say then."""
    with quiet_start():
        import albert_tf.data.prepare  # noqa: F401


def main() -> None:
    """Works until the command that has started the process ends, without Beam's log."""
    import_tasks()
    from apache_beam.runners.worker import sdk_worker_main

    # The command is sent what fails; Beam logs it as well, with all its INFO lines.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sdk_worker_main.main([])


if __name__ == "__main__":
    main()
