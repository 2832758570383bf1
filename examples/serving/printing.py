"""What both clients do with the command line and with answers."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl.flags import argparse_flags

MASK = "[MASK]"

# Names of what scores are of, in the answers of a signature.
NAMES = ("tokens", "labels")


def parser(description: str | None, address: str) -> argparse.ArgumentParser:
    """The command line of a client.

    Args:
      description: of the client.
      address: of the server where none is named.
    """
    made = argparse_flags.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    made.add_argument("--address", default=address, help=f"({address})")
    made.add_argument("--signature", default="serving_default", help="(serving_default)")
    made.add_argument(
        "--inputs", type=json.loads, help='of another signature than one of texts: {"question": ["…"], …}'
    )
    made.add_argument("text", nargs="*", help="a row of the input `text` each")
    return made


def requests_of(options: argparse.Namespace) -> Iterator[tuple[str, dict[str, Sequence]]]:
    """Signatures and inputs of what the command line asks for: texts with masks are filled, too."""
    yield options.signature, options.inputs or {"text": options.text}
    masked = [text for text in options.text if MASK in text]
    if masked and options.signature == "serving_default":
        yield "fill_mask", {"text": masked}


def lines(inputs: Mapping[str, Sequence], outputs: Mapping[str, Any]) -> Iterator[str]:
    """A row of a request and below it what was answered to it, row by row.

    Args:
      inputs: of the request by name.
      outputs: by name, as nested lists.
    """
    named = next((name for name in NAMES if name in outputs and "scores" in outputs), None)
    for row, texts in enumerate(zip(*inputs.values(), strict=True)):
        yield " | ".join(map(str, texts))
        for name, values in outputs.items():
            if named is None or name not in (named, "scores"):
                yield "  " + ("" if len(outputs) == 1 else f"{name}: ") + short(values[row])
        if named is not None:
            yield from scored(outputs[named][row], outputs["scores"][row])


def scored(names: Sequence, scores: Sequence) -> Iterator[str]:
    """Names with their scores, a line for each list of them; rows that others are longer than end in ""."""
    if names and not isinstance(names[0], str):
        for inner_names, inner_scores in zip(names, scores, strict=True):
            yield from scored(inner_names, inner_scores)
        return
    pairs = [f"{name} {score:.1%}" for name, score in zip(names, scores, strict=True) if name]
    if pairs:
        yield "  " + ", ".join(pairs)


def short(value: Any) -> str:
    """An answer in a line: of many numbers the first ones."""
    if isinstance(value, list) and len(value) > 16:
        return f"{len(value)} numbers: [{', '.join(map(short, value[:4]))}] …"
    if isinstance(value, list):
        return f"[{', '.join(map(short, value))}]"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
