"""The main program of every py_test: runs its file with pytest."""

import os
import sys
from pathlib import Path

import pytest


def main() -> int:
    """Exit status of pytest for the files and options on the command line."""
    options = [
        "-p",
        "no:cacheprovider",  # the folder is read-only in a sandbox
        f"--basetemp={Path(os.environ['TEST_TMPDIR']) / 'pytest'}",
        f"--junitxml={os.environ['XML_OUTPUT_FILE']}",
    ]
    return pytest.main([*options, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
