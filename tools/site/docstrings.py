"""An extension of Griffe for docstrings that differ from Google's style.

Paragraphs `Note: …` and `Source: …` stay paragraphs; Griffe would use their first line as the title of a box.
Doctests become code, and `Example:` stays open; Griffe would make a closed box. Blank lines are added between
sections.
"""

import re
import textwrap
from typing import Any

from griffe import Extension, Object

_PARAGRAPH = re.compile(r"^(Note|Source): (.*(?:\n +.*)*)", re.MULTILINE)
_EXAMPLE = re.compile(r"^Example:\n((?: +.*\n?)+)", re.MULTILINE)
_SECTION = re.compile(r"\n(?=(?:Args|Attributes|Returns|Raises|Yields):\n)")
_DOCTEST = re.compile(r"^( *)>>> .*(?:\n *\S.*)*", re.MULTILINE)


class Docstrings(Extension):
    """Rewrites docstrings before Griffe parses them."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrites the docstring of an object."""
        if obj.docstring is not None:
            text = _PARAGRAPH.sub(_format_paragraph, obj.docstring.value)
            text = _EXAMPLE.sub(lambda match: f"**Example**\n\n{textwrap.dedent(match[1])}", text)
            text = _DOCTEST.sub(r"\1```pycon\n\g<0>\n\1```", text)
            obj.docstring.value = _SECTION.sub("\n\n", text)


def _format_paragraph(match: re.Match[str]) -> str:
    """A paragraph that begins with its name in bold."""
    return f"\n**{match[1]}.** {' '.join(match[2].split())}"
