"""What the scripts have in common: a module is converted, and answers texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import numpy as np
from tokens import Tokens

Inputs = Mapping[str, np.ndarray]


def main(
    description: str,
    convert: Callable[..., None],
    load: Callable[[str], Callable[[Inputs], np.ndarray]],
    litert: bool = False,
) -> None:
    """Converts what the command line names, and prints the embeddings of its texts.

    Args:
      description: of the script.
      convert: from the folder of the encoder to a file.
      load: from that file to a function of the encoder's inputs.
      litert: whether there are the flags of LiteRT, which `convert` takes.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", help="folder of an exported encoder")
    parser.add_argument("model", help="file to write, from then on all that is needed but the tokenizer")
    parser.add_argument("text", nargs="+", help="to embed")
    if litert:
        parser.add_argument("--int8", action="store_true", help="kernels of 8 bits")
        parser.add_argument("--length", type=int, default=128, help="of all inputs, in tokens (128)")
    options = vars(parser.parse_args())
    encoder, model, texts = (options.pop(name) for name in ("encoder", "model", "text"))
    tokens, length = Tokens(encoder), options.get("length")
    if length is not None and not 2 <= length <= tokens.longest:
        parser.error(f"--length {length}: this encoder takes 2 to {tokens.longest} tokens")
    convert(encoder, model, **options)
    embeddings = load(model)(tokens.inputs(texts, length))
    for text, embedding in zip(texts, embeddings, strict=True):
        print(f"{text}\n  {len(embedding)} numbers: {np.array2string(embedding[:4], precision=4)} …")
