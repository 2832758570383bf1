"""The pages of docs/reference are complete: each public name with its arguments, results and an example."""

import importlib
import inspect
import re
from typing import NamedTuple

import pytest
import yaml

import albert_tf
import albert_tf.sklearn
from tests.pages import ROOT

# Of albert_tf.optimization, and used by the commands alone.
FOR_COMMANDS = {"OPTIMIZERS", "recipe_optimizer"}

_ENTRY = re.compile(r"^::: (\S+)\n((?: {4}.*\n)*)", re.MULTILINE)


class Entry(NamedTuple):
    """A name of a page of the reference, and those of its members that the page shows."""

    name: str
    members: list[str]

    def find(self):
        """What the name stands for."""
        module, _, name = self.name.rpartition(".")
        return getattr(importlib.import_module(module), name)


def entries():
    for page in sorted(ROOT.glob("docs/reference/*.md")):
        for found in _ENTRY.finditer(page.read_text("utf-8")):
            options = (yaml.safe_load(found[2]) or {}).get("options", {})
            yield Entry(found[1], options.get("members", []))


ENTRIES = list(entries())
CALLABLES = [entry for entry in ENTRIES if entry.name != "albert_tf.PRESETS"]


def described(text):
    """The arguments that a docstring describes."""
    found = re.search(r"^Args:\n((?:  .*\n)+)", text, re.MULTILINE)
    return set(re.findall(r"^  ([\w*]+): \S", found[1], re.MULTILINE)) if found else set()


def arguments(function):
    """The names of the arguments of a function or class, with the stars that its docstring shows."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = inspect.signature(function).parameters.values()
    return {stars.get(x.kind, "") + x.name for x in parameters if x.name not in ("self", "cls")}


def test_every_public_name_is_on_a_page_once():
    names = [entry.name for entry in ENTRIES]
    assert len(names) == len(set(names))
    public = {f"albert_tf.{name}" for name in {*albert_tf.__all__} - {"__version__", "optimization"}}
    assert {name for name in names if name.count(".") == 1} == public
    public |= {f"albert_tf.sklearn.{name}" for name in albert_tf.sklearn.__all__}
    own = {*albert_tf.optimization.__all__} - FOR_COMMANDS
    public |= {f"albert_tf.optimization.{name}" for name in own}
    assert public <= set(names)


@pytest.mark.parametrize("entry", CALLABLES, ids=lambda entry: entry.name)
def test_a_name_has_its_arguments_results_and_an_example(entry):
    found = entry.find()
    text = inspect.getdoc(found) + "\n"
    assert re.search(r"^Example:\n  >>> ", text, re.MULTILINE), "an example that runs"
    if inspect.isclass(found) and issubclass(found, Exception):
        return
    check(found, text)
    for name in entry.members:
        member = inspect.getattr_static(found, name)
        text = (inspect.getdoc(getattr(found, name)) or inspect.getdoc(member) or "") + "\n"
        assert len(text) > 20, f"{name} has no docstring"
        if not isinstance(member, property):
            check(getattr(found, name), text)


def check(found, text):
    """Arguments are the signature's; what is returned is said unless it is nothing, or a class's instance."""
    assert described(text) == arguments(found), found
    if inspect.isclass(found):
        return
    returned = inspect.signature(found).return_annotation
    assert returned is not inspect.Signature.empty, f"{found} has no types"
    assert (returned in (None, "None")) == (not re.search(r"^Returns:\n  \S", text, re.MULTILINE)), found


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/reference/*.md")), ids=lambda page: page.name)
def test_a_page_says_what_it_is_for(page):
    text = page.read_text("utf-8")
    listed = set(re.findall(r"\]\[([\w.]+)\]", text))
    shown = {found[1] for found in _ENTRY.finditer(text)}
    if shown:
        assert "| you want | name |" in text
        assert shown - listed <= {"albert_tf.inference.pipeline.Pipeline"}  # which `pipeline` returns
    assert len(text.partition(":::")[0].split()) > 60
