"""The command line. Each module of this package has the flags and the work of one command."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Collection, Sequence

from albert_tf import __version__
from albert_tf.cli import (
    analyse,
    compress,
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
from albert_tf.cli.flags import check_inputs
from albert_tf.program import Command, OneLineParser, run_command

_MODULES = (vocab, prepare, pretrain, finetune, distill, evaluate, predict, convert, compress, analyse, plan)
COMMANDS = {module.__name__.rpartition(".")[2]: module for module in _MODULES}


def run(arguments: Sequence[str]) -> int:
    """Runs a command line.

    Args:
      arguments: the words of the command line, without the program's name.
    Returns:
      The exit status: 0 if the work is done, 1 if it failed, 2 for a user's mistake, 75 if SIGTERM stopped a
      run that the same command resumes, 130 for Ctrl-C, 143 if SIGTERM stopped another command. Unless it is
      0, stderr has one line that explains it, or a traceback if ALBERT_TF_TRACEBACK=1 is in the environment.
    """
    return run_command(parse_command, arguments)


def parse_command(arguments: Sequence[str]) -> Command:
    """The command that a command line names, with its flags."""
    flags, others = command_line_parser(arguments).parse_known_args(arguments)
    flags.others = others
    if flags.command != "prepare":  # its other flags are Beam's
        flags.parser.refuse(others)
    flags.command_line = shlex.join(["albert-tf", *arguments])

    def work() -> None:
        if flags.command not in ("convert", "compress"):  # their inputs may be published names
            check_inputs(flags)
        COMMANDS[flags.command].run(flags)

    return Command(f"albert-tf {flags.command}", work, flags=vars(flags).keys())


def command_line_parser(words: Collection[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser of all commands. Only commands among the words get their flags, which are slow to make."""
    parser = OneLineParser(prog="albert-tf", description="ALBERT, from raw text to TF Hub modules.")
    parser.add_argument("--version", action="version", version=f"albert-tf {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command_parser = commands.add_parser(name, help=command.SUMMARY, description=command.SUMMARY)
        command_parser.set_defaults(parser=command_parser)
        if name in words:
            command.add_flags(command_parser)
    return parser
