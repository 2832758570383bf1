"""What the scripts have in common: a converted network answers texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np
from answers import answer
from tokens import Tokens

Arrays = Mapping[str, np.ndarray]
Call = Callable[[Arrays], Arrays]

# True of networks that take pairs of texts alone, False of those that take single texts.
PAIRED = {"span_labeler": True, "token_classifier": False}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(description: str, runtime: str, file: str, load: Callable[[str], tuple[Call, int | None]]) -> None:
    """Prints what the network in a folder answers to the texts of the command line.

    Args:
      description: of the script.
      runtime: as `python -m hub_export --to` calls it.
      file: name of the network in the folder, by its ending; "_int8" stands before that with `--int8`.
      load: from that file to a function from the network's inputs to its outputs, and the one length of
        inputs that it takes, None for any.
    """
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="what `python -m hub_export --to` has written")
    parser.add_argument("text", nargs="+", help="to answer, such as a question")
    parser.add_argument(
        "--pair", nargs="+", default=[], help="second segment of each text, such as a context"
    )
    parser.add_argument("--int8", action="store_true", help="the network whose products are of 8 bits")
    options = parser.parse_args()
    folder, texts, pairs = Path(options.folder), options.text, options.pair
    if len(pairs) not in (0, len(texts)):
        counts = f"the number of texts is {len(texts)}, and that of --pair is {len(pairs)}"
        parser.error(f"{counts}: name a second segment for each text")
    name = file.replace(".", "_int8.") if options.int8 else file
    calibrate = " --calibrate FILE" if options.int8 else ""
    remedy = f"`python -m hub_export --run RUN --output FOLDER --to {runtime}{calibrate}` writes one"
    if not folder.exists():
        parser.error(f"{folder}: no such folder: {remedy}")
    if not (folder / name).exists():
        parser.error(f"{folder} has no {name}: {remedy}")
    if not (folder / "spiece.model").exists():
        parser.error(f"{folder} has no spiece.model: these scripts read vocabularies of SentencePiece alone")
    tokens = Tokens(folder)
    model = tokens.task.get("model")
    if model == "multiple_choice":
        parser.error(f"{folder} chooses among options, of which this command has none: call load")
    takes_pairs = PAIRED.get(model, tokens.task.get("takes_pairs"))  # None: it does not say
    if takes_pairs is not None and takes_pairs != bool(pairs):
        remedy = "name the second by --pair" if takes_pairs else "leave --pair out"
        parser.error(f"{folder} takes {'two texts' if takes_pairs else 'a single text'}: {remedy}")
    call, length = load(str(folder / name))
    inputs = tokens.inputs(texts, length, pairs)
    outputs = call(inputs)
    for row, text in enumerate(texts):
        of_row = ({name: array[row] for name, array in arrays.items()} for arrays in (inputs, outputs))
        lines = answer(tokens, *of_row, text, pairs[row] if pairs else "")
        print(text, *lines, sep="\n  ")
