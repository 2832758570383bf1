"""The documentation site, as far as it can be checked without building it: `make docs` does that."""

import ast
import re

from tests.pages import ROOT, pages


def test_every_page_is_in_the_navigation():
    navigation = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    made = {"docs/reference/commands.md"}  # by tools/site/hook.py
    made |= {f"notebooks/{path.stem}.md" for path in ROOT.glob("notebooks/*.ipynb")}
    assert len(navigation) == len(set(navigation))
    assert set(pages()) <= set(navigation)
    assert {page for page in navigation if not (ROOT / page).exists()} == made


def test_tests_that_pages_name_are_there():
    named = {
        found
        for page in pages()
        for found in re.findall(r"`(tests/\S+\.py)(?:::(\w+))?`", (ROOT / page).read_text("utf-8"))
    }
    assert len(named) > 30
    for path, function in named:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not function or function in functions, f"{path}::{function}"
