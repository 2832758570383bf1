"""`python -m albert_tf` and the console script `albert-tf`."""

from __future__ import annotations

import sys

from albert_tf.cli import COMMANDS, run
from albert_tf.program import RESUME, TERMINATED
from albert_tf.signals import raise_on_termination


def main() -> None:
    """Runs the command that the command line names, and exits with its status."""
    command = next((word for word in sys.argv[1:] if word in COMMANDS), None)  # absl's flags may precede it
    raise_on_termination(RESUME if command in ("pretrain", "finetune", "distill") else TERMINATED)
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
