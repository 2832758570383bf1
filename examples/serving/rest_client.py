"""Asks TF Serving over REST: what a model answers to texts, and what a [MASK] stands for.

python examples/serving/rest_client.py --address http://localhost:8501 "The water is [MASK]."
python examples/serving/rest_client.py --signature pair --inputs '{"text": ["One."], "text_pair": ["Two."]}'
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import requests
from absl import app
from printing import lines, parser, requests_of


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
      signature: "serving_default", "pair", "answer" or another that the model has.
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
    return parser(__doc__, "http://localhost:8501").parse_args(arguments[1:])


def main(options: argparse.Namespace) -> None:
    """Prints what the server answers to the command line."""
    try:
        for signature, inputs in requests_of(options):
            outputs = predict(options.address, signature, inputs)
            # Of a signature with one output REST gives it without its name.
            for line in lines(inputs, outputs if isinstance(outputs, dict) else {"": outputs}):
                print(line)
    except requests.ConnectionError:
        sys.exit(f"{options.address}: no server answers there: start it, or name another by --address")
    except (requests.RequestException, ValueError) as error:
        sys.exit(f"{options.address}: {error}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
