"""A process that works for `prepare --direct_running_mode=multi_processing`: Beam's, without its log."""

from __future__ import annotations

import os

from albert_tf.process import quiet_start


def main() -> None:
    """Works until the command that has started the process ends."""
    with quiet_start():
        from apache_beam.runners.worker import sdk_worker_main

        import albert_tf.data.prepare  # noqa: F401, what the tasks need
    # The command is sent what fails; Beam logs it as well, with all its INFO lines.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sdk_worker_main.main([])


if __name__ == "__main__":
    main()
