"""An extension of Griffe for what our docstrings have and Google's do not.

Paragraphs `Note: …` and `Source: …` stay paragraphs; Griffe would take their first line for a box's title.
Doctests are code, and an `Example:` is open; Griffe would make it a box that is closed at first. Sections
follow each other without blank lines.
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
    """Rewrites the docstrings before they are parsed."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrites the docstring of one object."""
        if obj.docstring is not None:
            text = _PARAGRAPH.sub(_paragraph, obj.docstring.value)
            text = _EXAMPLE.sub(lambda found: f"**Example**\n\n{textwrap.dedent(found[1])}", text)
            text = _DOCTEST.sub(r"\1```pycon\n\g<0>\n\1```", text)
            obj.docstring.value = _SECTION.sub("\n\n", text)


def _paragraph(found: re.Match[str]) -> str:
    """A paragraph that begins with its name in bold."""
    return f"\n**{found[1]}.** {' '.join(found[2].split())}"
