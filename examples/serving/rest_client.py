"""Asks TF Serving over REST: embeddings of texts, and what a [MASK] stands for.

python examples/serving/rest_client.py --address http://localhost:8501 "The water is [MASK]."
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from absl import app
from absl.flags import argparse_flags


def predict(
    address: str,
    signature: str,
    inputs: Mapping[str, Sequence],
    model: str = "albert",
    version: int | None = None,
    seconds: float = 10.0,
) -> Any:
    """The answer of one signature, in columns.

    Args:
      address: `http://host:port`.
      signature: "serving_default", "pair", "tokens" or "fill_mask".
      inputs: its inputs by name, a row an example: texts, or token ids.
      model: as models.config names it.
      version: None asks the newest.
      seconds: how long to wait.
    Returns:
      Its outputs by name as nested lists; of a signature with one output, that output alone.
    Raises:
      ValueError: the server refuses the request and says why.
      requests.RequestException: the server cannot be reached.
    """
    which = model if version is None else f"{model}/versions/{version}"
    body = {"signature_name": signature, "inputs": {name: list(rows) for name, rows in inputs.items()}}
    answer = requests.post(f"{address}/v1/models/{which}:predict", json=body, timeout=seconds)
    content = answer.json()
    if "error" in content:
        raise ValueError(f"{signature}: {content['error']}")
    return content["outputs"]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse_flags.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--address", default="http://localhost:8501", help="(http://localhost:8501)")
    parser.add_argument("text", nargs="+")
    return parser.parse_args(arguments[1:])


def main(options: argparse.Namespace) -> None:
    """Prints what the server answers about the texts of the command line."""
    try:
        show(options.address, options.text)
    except (requests.RequestException, ValueError) as error:
        sys.exit(f"{options.address}: {error}")


def show(address: str, texts: Sequence[str]) -> None:
    """Prints the embeddings of texts, and what fills their masks."""
    embeddings = predict(address, "serving_default", {"text": texts})
    for text, embedding in zip(texts, embeddings, strict=True):
        print(f"{text}\n  {len(embedding)} numbers: {[round(x, 3) for x in embedding[:4]]} …")
    masked = [text for text in texts if "[MASK]" in text]
    if not masked:
        return
    filled = predict(address, "fill_mask", {"text": masked})
    for text, masks, scores in zip(masked, filled["tokens"], filled["scores"], strict=True):
        print(text)
        for words, shares in zip(masks, scores, strict=True):
            if shares[0] > 0:  # else another text of the batch has more masks
                answers = zip(words, shares, strict=True)
                print("  " + ", ".join(f"{word} {share:.1%}" for word, share in answers))


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
