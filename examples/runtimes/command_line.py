"""The command line of the scripts: a converted network answers texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import numpy as np
from answers import format_answer
from tokens import ConvertedTokenizer

Arrays = Mapping[str, np.ndarray]
Call = Callable[[Arrays], Arrays]

# Whether networks of a kind take pairs of texts. Others have it in their task.json.
TAKES_PAIRS = {"span_labeler": True, "token_classifier": False}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, without the usage above it."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def main(description: str, runtime: str, file: str, load: Callable[[str], tuple[Call, int | None]]) -> None:
    """Prints the answers of the network in a folder to the texts of the command line.

    Args:
      description: description of the script.
      runtime: name of the runtime for `python -m hub_export --to`.
      file: name of the network's file, such as model.onnx; with `--int8` it is model_int8.onnx.
      load: loads that file. It returns a function from the network's inputs to its outputs, and the only
        length of the inputs that the network takes; None: any length.
    """
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="folder that `python -m hub_export --to` wrote")
    parser.add_argument("text", nargs="+", help="texts to answer, such as questions")
    parser.add_argument(
        "--pair", nargs="+", default=[], help="second segment of each text, such as a context"
    )
    parser.add_argument("--int8", action="store_true", help="use the int8 network")
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
    tokenizer = ConvertedTokenizer(folder)
    model = tokenizer.task.get("model")
    if model == "multiple_choice":
        parser.error(f"{folder} chooses among options, of which this command has none: call load")
    takes_pairs = TAKES_PAIRS.get(model, tokenizer.task.get("takes_pairs"))  # None: unknown
    if takes_pairs is not None and takes_pairs != bool(pairs):
        remedy = "name the second by --pair" if takes_pairs else "leave --pair out"
        parser.error(f"{folder} takes {'two texts' if takes_pairs else 'a single text'}: {remedy}")
    call, length = load(str(folder / name))
    inputs = tokenizer(texts, length, pairs)
    outputs = call(inputs)
    for row, text in enumerate(texts):
        arrays = ({name: array[row] for name, array in batch.items()} for batch in (inputs, outputs))
        lines = format_answer(tokenizer, *arrays, text, pairs[row] if pairs else "")
        print(text, *lines, sep="\n  ")
