"""Makes the page with the reference of the commands from their parsers."""

import argparse
import re
from collections.abc import Iterator

import hub_export.__main__ as hub
import hub_export.check as check
from albert_tf import cli
from albert_tf.program import OneLineParser

INTRODUCTION = """# Commands

The flags of all commands, as `--help` prints them. A value in round brackets is the default. `--helpfull`
lists the flags of absl, such as `--verbosity` and `--log_dir`, which all commands understand as well."""

PROGRAMS = {
    "hub_export": (hub.add_export_flags, hub.PROGRAM_DESCRIPTION),
    "hub_export.check": (
        check.add_check_flags,
        "loads exported modules, and tests that they answer and suit TF Serving",
    ),
}


def create_commands_page() -> str:
    """The page in Markdown."""
    sections = [INTRODUCTION, *_create_sections(cli.command_line_parser())]
    for name, (add_flags, description) in PROGRAMS.items():
        parser = OneLineParser(prog=f"python -m {name}", description=description)
        add_flags(parser)
        sections += _create_sections(parser)
    return "\n\n".join(sections) + "\n"


def _create_sections(parser: argparse.ArgumentParser, summary: str | None = None) -> Iterator[str]:
    """The paragraphs of a command, or of its subcommands if it has any."""
    subcommands = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in subcommands:
        summaries = {choice.dest: choice.help for choice in action._choices_actions}
        for name, subparser in action.choices.items():
            yield from _create_sections(subparser, summaries[name])
    if subcommands:
        return
    yield f"## {parser.prog}"
    if text := parser.description or summary:
        yield text[0].upper() + text[1:].rstrip(".") + "."
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if _is_listed(action)]
        if actions and group.title not in ("positional arguments", "options"):
            yield f"**{group.title}**"
        yield from (_format_entry(action, parser) for action in actions)
    if parser.epilog:
        yield parser.epilog


def _is_listed(action: argparse.Action) -> bool:
    """Whether --help lists a flag, without --help itself and --helpfull."""
    return action.help != argparse.SUPPRESS and not {"-h", "--helpfull"} & {*action.option_strings}


def _format_entry(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    """A flag and its help as an entry of a definition list."""
    name = ", ".join(action.option_strings).replace("--no-", "--no")
    if action.nargs != 0:
        value = action.metavar or action.dest.upper()
        name = f"{name} {value}{' …' if action.nargs == '+' else ''}".strip()
    text = re.sub(r"([<*])", r"\\\1", parser._get_formatter()._expand_help(action))
    if action.choices and not action.metavar:
        text += "; one of " + ", ".join(f"`{choice}`" for choice in action.choices)
    required = " **Required.**" if action.required and action.option_strings else ""
    return f"`{name}`\n:   {text}.{required}"
