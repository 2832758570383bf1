"""The command line of both clients, and the lines that they print."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl.flags import argparse_flags

MASK = "[MASK]"

# Outputs whose entries the output `scores` belongs to.
SCORED_OUTPUTS = ("tokens", "labels")


def create_parser(description: str | None, address: str) -> argparse.ArgumentParser:
    """The parser of a client's command line.

    Args:
      description: description of the client.
      address: default address of the server.
    """
    parser = argparse_flags.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--address", default=address, help=f"({address})")
    parser.add_argument("--signature", default="serving_default", help="(serving_default)")
    parser.add_argument(
        "--inputs", type=json.loads, help='inputs of other signatures, such as {"question": ["…"], …}'
    )
    parser.add_argument("text", nargs="*", help="texts, the rows of the input `text`")
    return parser


def list_requests(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Sequence]]]:
    """The signature and the inputs of each request. Texts with a [MASK] make a second one, to fill it."""
    yield options.signature, options.inputs or {"text": options.text}
    masked = [text for text in options.text if MASK in text]
    if masked and options.signature == "serving_default":
        yield "fill_mask", {"text": masked}


def format_response(inputs: Mapping[str, Sequence], outputs: Mapping[str, Any]) -> Iterator[str]:
    """A line for each row of a request, and below it lines for the outputs of the row.

    Args:
      inputs: inputs of the request by name.
      outputs: outputs by name, as nested lists.
    """
    scored = next((name for name in SCORED_OUTPUTS if name in outputs and "scores" in outputs), None)
    for row, texts in enumerate(zip(*inputs.values(), strict=True)):
        yield " | ".join(map(str, texts))
        for name, values in outputs.items():
            if scored is None or name not in (scored, "scores"):
                yield "  " + label_output(name, len(outputs)) + shorten(values[row])
        if scored is not None:
            yield from format_scores(outputs[scored][row], outputs["scores"][row])


def label_output(name: str, count: int) -> str:
    """The label before an output, which a single one does not need."""
    return "" if count == 1 else f"{name}: "


def format_scores(names: Sequence, scores: Sequence) -> Iterator[str]:
    """A line for each innermost list of names, with the scores; names that are "" fill up a shorter list."""
    if names and not isinstance(names[0], str):
        for inner_names, inner_scores in zip(names, scores, strict=True):
            yield from format_scores(inner_names, inner_scores)
        return
    pairs = [f"{name} {score:.1%}" for name, score in zip(names, scores, strict=True) if name]
    if pairs:
        yield "  " + ", ".join(pairs)


def shorten(value: Any) -> str:
    """A value in one line, with the first numbers of a long list."""
    if isinstance(value, list) and len(value) > 16:
        return f"{len(value)} numbers: [{', '.join(map(shorten, value[:4]))}] …"
    if isinstance(value, list):
        return f"[{', '.join(map(shorten, value))}]"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
