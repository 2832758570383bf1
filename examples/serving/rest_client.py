"""Sends texts to TF Serving over REST, and prints the answers of a model and the tokens for a [MASK].

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
from printing import create_parser, format_response, list_requests


def predict(
    address: str,
    signature: str,
    inputs: Mapping[str, Sequence],
    model: str = "albert",
    version: int | None = None,
    seconds: float = 10.0,
) -> Any:
    """Calls a signature of a model, in the columnar format.

    Args:
      address: address of the server, `http://host:port`.
      signature: "serving_default", "pair", "answer" or another signature of the model.
      inputs: inputs of the signature by name, a row for each example: texts, or token ids.
      model: name of the model in models.config.
      version: version of the model; None: the newest.
      seconds: time to wait for the response.
    Returns:
      Outputs of the signature by name, as nested lists; a single output comes without its name.
    Raises:
      ValueError: the server refuses the request and says why.
      requests.RequestException: the server cannot be reached.
    """
    path = model if version is None else f"{model}/versions/{version}"
    body = {"signature_name": signature, "inputs": {name: list(rows) for name, rows in inputs.items()}}
    response = requests.post(f"{address}/v1/models/{path}:predict", json=body, timeout=seconds)
    content = response.json()
    if "error" in content:
        raise ValueError(f"{signature}: {content['error']}")
    return content["outputs"]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parses the command line."""
    return create_parser(__doc__, "http://localhost:8501").parse_args(arguments[1:])


def main(options: argparse.Namespace) -> None:
    """Prints the server's responses."""
    try:
        for signature, inputs in list_requests(options):
            outputs = predict(options.address, signature, inputs)
            named_outputs = outputs if isinstance(outputs, dict) else {"": outputs}  # a single output
            for line in format_response(inputs, named_outputs):
                print(line)
    except requests.ConnectionError:
        sys.exit(f"{options.address}: no server answers there: start it, or name another by --address")
    except (requests.RequestException, ValueError) as error:
        sys.exit(f"{options.address}: {error}")


if __name__ == "__main__":
    app.run(main, flags_parser=parse)
