"""Notebooks as pages of the site: text, code and stored output, with the pictures as files beside them."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by name."""
    parts, pictures = [], {}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else _fenced(source, "python"))
        for kind, content in _outputs(cell):
            if kind == "image/png":
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(content)
                parts.append(f"![Picture {len(pictures)} of this notebook]({name})")
            else:
                parts.append(_fenced(content, "text"))
    parts.append(f"This page is the repository's `notebooks/{path.name}`, as it is stored.")
    return "\n\n".join(parts), pictures


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a cell shows, as kinds and contents: the best form of each output."""
    for output in cell.get("outputs", []):
        forms = {"text/plain": output["text"]} if "text" in output else output["data"]
        kind = "image/png" if "image/png" in forms else "text/plain"
        yield kind, "".join(forms[kind])


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"
