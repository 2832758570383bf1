"""Each public name is defined once, so that a search for it ends at its definition."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Of each command, by which the command line runs it; and of each program.
OF_COMMANDS, OF_PROGRAMS = {"SUMMARY", "add_flags", "run"}, {"main"}


def defined_names(file):
    """The public names that a module defines at its top level."""
    for node in ast.parse(file.read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        for target in targets:
            name = getattr(target, "name", getattr(target, "id", "_"))
            if not name.startswith("_"):
                yield name


def test_a_public_name_is_defined_once():
    files = defaultdict(list)
    for package in ("albert_tf", "hub_export"):
        for file in (ROOT / package).rglob("*.py"):
            for name in {*defined_names(file)}:
                is_command = file.parent.name == "cli" and name in OF_COMMANDS
                if not is_command and name not in OF_PROGRAMS:
                    files[name].append(str(file.relative_to(ROOT)))
    assert {name: places for name, places in files.items() if len(places) > 1} == {}
