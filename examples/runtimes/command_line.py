"""What the scripts have in common: a converted network answers texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from answers import answer
from tokens import Tokens

Arrays = Mapping[str, np.ndarray]
Call = Callable[[Arrays], Arrays]


def main(description: str, file: str, load: Callable[[str], tuple[Call, int | None]]) -> None:
    """Prints what the network in a folder answers to the texts of the command line.

    Args:
      description: of the script.
      file: name of the network in the folder, by its ending; "_int8" stands before that with `--int8`.
      load: from that file to a function from the network's inputs to its outputs, and the one length of
        inputs that it takes, None for any.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="what `python -m hub_export --to` has written")
    parser.add_argument("text", nargs="+", help="to answer, such as a question")
    parser.add_argument(
        "--pair", nargs="+", default=[], help="second segment of each text, such as a context"
    )
    parser.add_argument("--int8", action="store_true", help="the network whose products are of 8 bits")
    options = parser.parse_args()
    folder, texts, pairs = Path(options.folder), options.text, options.pair
    if len(pairs) not in (0, len(texts)):
        parser.error(f"--pair: {len(pairs)} second segments for {len(texts)} texts")
    name = file.replace(".", "_int8.") if options.int8 else file
    for needed in (name, "spiece.model"):
        if not (folder / needed).exists():
            parser.error(f"{folder} has no {needed}: `python -m hub_export --to` writes such a folder")
    tokens = Tokens(folder)
    if tokens.task.get("model") == "multiple_choice":
        parser.error(f"{folder} chooses among options, of which this command has none: call load")
    call, length = load(str(folder / name))
    inputs = tokens.inputs(texts, length, pairs)
    outputs = call(inputs)
    for row, text in enumerate(texts):
        of_row = ({name: array[row] for name, array in arrays.items()} for arrays in (inputs, outputs))
        lines = answer(tokens, *of_row, text, pairs[row] if pairs else "")
        print(text, *lines, sep="\n  ")
