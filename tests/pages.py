"""The pages that users read, and the blocks of code in them."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]

_PART = re.compile(
    r"^#+ (?P<heading>.*)$"
    r"|^::: (?P<reference>\S+\n(?: {4}.*\n)*)"
    r"|^(?P<indented>(?: {4}.*\n|\n(?= {4}))+)"
    r"|^```(?P<language>.*)\n(?P<fenced>(?:.*\n)*?)```$",
    re.MULTILINE,
)


class Block(NamedTuple):
    """A block of code of a page.

    Attributes:
      page: its file, relative to the repository.
      heading: what it stands under.
      language: of a fenced block; "shell" of an indented one, "json" where that is an object, or a list
        of them.
      text: its lines, without the indentation.
    """

    page: str
    heading: str
    language: str
    text: str


def pages() -> list[str]:
    """README.md and those of docs/ and of the examples, relative to the repository."""
    found = [*sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
    return ["README.md", *(str(path.relative_to(ROOT)) for path in found)]


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in reading order."""
    return blocks_of(page, (ROOT / page).read_text("utf-8"))


def blocks_of(page: str, text: str) -> list[Block]:
    """The blocks of a text in Markdown, in reading order; diagrams are left out."""
    found = []
    heading = ""
    for part in _PART.finditer(text):
        if part["heading"]:
            heading = part["heading"]
        elif part["reference"]:  # of the site, and what it shows
            continue
        elif part["indented"]:
            inside = textwrap.dedent(part["indented"]).strip()
            found.append(Block(page, heading, "json" if inside.startswith(("{", "[{")) else "shell", inside))
        elif part["language"] != "mermaid":
            found.append(Block(page, heading, part["language"], part["fenced"]))
    return found


def anchors(page: str) -> set[str]:
    """What the headings of a page are called behind the # of a link, as GitHub does it."""
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: str) -> list[str]:
    """Where the links of a page point to, without those to other hosts."""
    found = re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text("utf-8"))
    return [link for link in found if "://" not in link]


def commands(block: Block) -> list[list[str]]:
    """The words of each command of a shell block, without comments."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]
