"""`python -m albert_tf` and the console script `albert-tf`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Runs the command that the command line names, and exits with its status."""
    # Before TensorFlow is imported: its C++ start-up messages say nothing to a user.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from albert_tf.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
