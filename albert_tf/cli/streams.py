"""Standard input and output in place of files."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from albert_tf.utils.errors import InputError

_INPUT = ("-", "/dev/stdin")
_OUTPUT = ("-", "/dev/stdout")

FORMATS = ("csv", "tsv", "jsonl")  # of tables


@contextlib.contextmanager
def input_file(name: str, table_format: str | None) -> Iterator[str]:
    """The path of a file to read; standard input is one as long as the block runs, and errors name it so.

    Args:
      name: what the command line names.
      table_format: of a table from standard input, one of FORMATS; None: CSV.
    Raises:
      InputError: a format is given for a file, whose name decides.
    """
    if name not in _INPUT:
        if table_format is not None:
            raise InputError(f"`input_format`: of no use to {name}, whose ending is its format: leave it out")
        yield name
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"stdin.{table_format or FORMATS[0]}"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        try:
            yield str(file)
        except InputError as error:
            raise InputError(str(error).replace(str(file), "standard input")) from None


def output_place(name: str) -> str | BinaryIO:
    """The path to write to, or the stream."""
    return sys.stdout.buffer if name in _OUTPUT else name
