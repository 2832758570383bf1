"""Executes a notebook where it lies and stores what it shows: `python notebooks/execute.py FILE`."""

from __future__ import annotations

import argparse
from pathlib import Path

import nbclient
import nbformat


def execute(
    notebook: nbformat.NotebookNode, folder: Path, settings: str | None = None
) -> nbformat.NotebookNode:
    """Runs all cells of a notebook.

    Args:
      notebook: it is changed: its outputs are replaced.
      folder: to run in.
      settings: what stands in for the source of the cell that is tagged `settings`.
    Returns:
      The notebook.
    Raises:
      nbclient.exceptions.CellExecutionError: a cell raises.
    """
    if settings is not None:
        (cell,) = (cell for cell in notebook.cells if "settings" in cell.metadata.get("tags", []))
        cell.source = settings
    client = nbclient.NotebookClient(
        notebook, timeout=1800, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()
    for cell in notebook.cells:
        outputs = cell.get("outputs", [])
        # What TensorFlow logs names the machine and the time.
        cell["outputs"] = [output for output in outputs if output.get("name") != "stderr"]
        if cell.cell_type != "code":
            del cell["outputs"]
    return notebook


def main() -> None:
    """Executes the notebook that the command line names, and stores it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    path = parser.parse_args().file
    notebook = execute(nbformat.read(path, as_version=4), path.parent)
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
