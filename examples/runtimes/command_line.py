"""What the scripts have in common: a module is converted, and answers texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from answers import answer
from tokens import Tokens

Arrays = Mapping[str, np.ndarray]


def main(
    description: str,
    convert: Callable[..., None],
    load: Callable[[str], Callable[[Arrays], Arrays]],
    litert: bool = False,
) -> None:
    """Converts what the command line names, and prints what it answers to its texts.

    Args:
      description: of the script.
      convert: from the folder of the module to a file.
      load: from that file to a function from the module's inputs to its outputs.
      litert: whether there are the flags of LiteRT, which `convert` takes.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("module", help="folder of an exported encoder, or of a fine-tuned serving model")
    parser.add_argument("model", help="file to write, from then on all that is needed but the tokenizer")
    parser.add_argument("text", nargs="+", help="to answer, such as a question")
    parser.add_argument(
        "--pair", nargs="+", default=[], help="second segment of each text, such as a context"
    )
    if litert:
        parser.add_argument("--int8", action="store_true", help="kernels of 8 bits")
        parser.add_argument("--length", type=int, default=128, help="of all inputs, in tokens (128)")
    options = vars(parser.parse_args())
    module, model, texts, pairs = (options.pop(name) for name in ("module", "model", "text", "pair"))
    if len(pairs) not in (0, len(texts)):
        parser.error(f"--pair: {len(pairs)} second segments for {len(texts)} texts")
    if not (Path(module) / "assets/spiece.model").exists():
        parser.error(
            f"{module} has no assets/spiece.model: name OUT/encoder, or OUT/serving/1 of a fine-tuned "
            "run, of a SentencePiece vocabulary, and exported anew where it is of an earlier version"
        )
    tokens, length = Tokens(module), options.get("length")
    if tokens.task.get("model") == "multiple_choice":
        parser.error(f"{module} chooses among options, of which this command has none: call convert and load")
    if length is not None and not 2 <= length <= tokens.longest:
        parser.error(f"--length {length}: this model takes 2 to {tokens.longest} tokens")
    convert(module, model, **options)
    inputs = tokens.inputs(texts, length, pairs)
    outputs = load(model)(inputs)
    for row, text in enumerate(texts):
        of_row = ({name: array[row] for name, array in arrays.items()} for arrays in (inputs, outputs))
        lines = answer(tokens, *of_row, text, pairs[row] if pairs else "")
        print(text, *lines, sep="\n  ")
