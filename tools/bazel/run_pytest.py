"""The main program of each py_test, which runs a test file with pytest."""

import os
import sys
from pathlib import Path

import pytest

PROJECT = ("albert_tf", "hub_export", "tests", "tools")


def main() -> int:
    """The exit status of pytest for the files and options on the command line."""
    options = [
        "-p",
        "no:cacheprovider",  # the folder is read-only in a sandbox
        f"--basetemp={Path(os.environ['TEST_TMPDIR']) / 'pytest'}",
        f"--junitxml={os.environ['XML_OUTPUT_FILE']}",
    ]
    status = pytest.main([*options, *sys.argv[1:]])
    if files := installed_modules(os.environ["TEST_SRCDIR"]):
        print("not among the deps, found where the project is installed:", *files, sep="\n")
        return 1
    return status


def installed_modules(runfiles: str) -> list[str]:
    """Files of the project's modules that were not imported from the runfiles of this test."""
    modules = [sys.modules[name] for name in sorted(sys.modules) if name.partition(".")[0] in PROJECT]
    # A folder without __init__.py has no file.
    files = [getattr(module, "__file__", None) or "" for module in modules]
    return [file for file in files if file and not file.startswith(runfiles)]


if __name__ == "__main__":
    sys.exit(main())
