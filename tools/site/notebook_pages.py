"""Makes pages of notebooks: text, code and stored output, with pictures as separate files."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def create_notebook_page(path: Path) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook in Markdown, and its pictures by name."""
    blocks, pictures = [], {}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        source = "".join(cell["source"])
        blocks.append(source if cell["cell_type"] == "markdown" else _format_code(source, "python"))
        for kind, content in _outputs(cell):
            if kind == "image/png":
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(content)
                blocks.append(f"![Picture {len(pictures)} of this notebook]({name})")
            else:
                blocks.append(_format_code(content, "text"))
    blocks.append(f"This page is the repository's `notebooks/{path.name}`, as it is stored.")
    return "\n\n".join(blocks), pictures


def _outputs(cell: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The kind and content of each output of a cell, pictures if there are any."""
    for output in cell.get("outputs", []):
        contents = {"text/plain": output["text"]} if "text" in output else output["data"]
        kind = "image/png" if "image/png" in contents else "text/plain"
        yield kind, "".join(contents[kind])


def _format_code(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"
