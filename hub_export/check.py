"""`python -m hub_export.check DIR`: checks that exported modules load, answer, and suit TF Serving."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from albert_tf.errors import InputError
from albert_tf.program import TERMINATED, OneLineParser, run_program
from albert_tf.signals import quiet_start, raise_on_termination


def check_main(arguments: Sequence[str] | None = None) -> None:
    """Checks the modules that the arguments name. None: the arguments of this process.

    An error raises SystemExit with one line on stderr: status 1 if a module fails, 2 if there is none.
    """
    run_program("hub_export.check", __doc__ or "", add_check_flags, run_check, arguments)


def add_check_flags(parser: OneLineParser) -> None:
    """Adds the flag of the program to a parser."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="a module, or a folder that holds some")


def run_check(flags: argparse.Namespace) -> None:
    """Checks each module of a folder and prints one line for it."""
    modules = sorted(path.parent for path in flags.folder.rglob("saved_model.pb"))
    # Unfinished exports are in hidden folders.
    folders = [x for x in modules if not any(y.startswith(".") for y in x.relative_to(flags.folder).parts)]
    if not folders:
        raise InputError(f"no saved_model.pb in {flags.folder}")
    with quiet_start():
        import tensorflow as tf

        from hub_export.module_comparison import TEXT_OPS, check
    tf.get_logger().setLevel("ERROR")  # the loader of TensorFlow 1 is deprecated, but it is what servers run
    for folder in folders:
        ops = check(folder)
        name = folder.resolve().name if folder == flags.folder else folder.relative_to(flags.folder)
        print(f"{name}: passed; ops of TF Text: {', '.join(sorted(ops & TEXT_OPS)) or 'none'}")


if __name__ == "__main__":
    raise_on_termination(TERMINATED)
    check_main()
