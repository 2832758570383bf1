"""The command line: a module for each command, its flags and what it runs; errors as one line."""

from __future__ import annotations

import argparse
import functools
import re
import shlex
from collections.abc import Collection, Sequence

from albert_tf import __version__
from albert_tf.cli import (
    analyse,
    convert,
    distill,
    evaluate,
    finetune,
    plan,
    predict,
    prepare,
    pretrain,
    vocab,
)
from albert_tf.startup import Command, OneLineParser, run_command
from albert_tf.utils.errors import InputError

_MODULES = (vocab, prepare, pretrain, finetune, distill, evaluate, predict, convert, analyse, plan)
COMMANDS = {module.__name__.rpartition(".")[2]: module for module in _MODULES}


def run(arguments: Sequence[str]) -> int:
    """Runs a command line, without the program's name; returns the exit status.

    That is 0 when the work is done, 1 when it failed, 2 for a user's mistake, 75 when SIGTERM stopped a run
    that the same command resumes. All but 0 come with one line on stderr; with ALBERT_TF_TRACEBACK=1 in the
    environment, with a traceback.
    """
    return run_command(_command, arguments)


def _command(arguments: Sequence[str]) -> Command:
    flags, others = command_line_parser().parse_known_args(arguments)
    flags.others = others
    if flags.command != "prepare":  # whose other flags are Beam's
        flags.parser.refuse(others)
    flags.command_line = shlex.join(["albert-tf", *arguments])
    return f"albert-tf {flags.command}", functools.partial(_run, flags)


def _run(flags: argparse.Namespace) -> None:
    """Runs a command, and names flags in its errors."""
    try:
        COMMANDS[flags.command].run(flags)
    except InputError as error:
        raise type(error)(_with_flags(str(error), vars(flags))) from error


def _with_flags(message: str, names: Collection[str]) -> str:
    """A message in which `arguments` are the flags that they come from.

    >>> _with_flags("name another `output`", ["output"])
    'name another --output'
    """
    return re.sub(r"`(\w+)`", lambda found: f"--{found[1]}" if found[1] in names else found[0], message)


def command_line_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = OneLineParser(prog="albert-tf", description="ALBERT, from raw text to TF Hub modules.")
    parser.add_argument("--version", action="version", version=f"albert-tf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        its_own = commands.add_parser(name, help=command.SUMMARY, description=command.SUMMARY)
        its_own.set_defaults(parser=its_own)
        command.add_flags(its_own)
    return parser
