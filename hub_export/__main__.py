"""`python -m hub_export`: the modules of a run directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hub_export.export import export


def main(arguments: Sequence[str] | None = None) -> None:
    """Exports what the command line says.

    Args:
      arguments: the command line without the program's name; None reads the process's own.
    Raises:
      SystemExit: with status 2 and one line on stderr, where the export is impossible.
    """
    options = _parser().parse_args(arguments)
    try:
        folders = export(options.run, options.output, options.seq_length, options.encoder_only)
    except (ValueError, OSError) as error:
        print(f"hub_export: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    for folder in folders:
        print(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m hub_export",
        description="Writes OUTPUT/encoder and OUTPUT/preprocessor, modules for hub.KerasLayer.",
        allow_abbrev=False,
    )
    parser.add_argument("--run", required=True, help="run directory; its newest checkpoint is exported")
    parser.add_argument("--output", required=True, help="folder of the modules, each replaced as a whole")
    parser.add_argument(
        "--seq_length", type=int, default=128, help="the preprocessor's default length, in tokens (128)"
    )
    parser.add_argument(
        "--encoder_only", action="store_true", help="no preprocessor; a run without vocabulary needs it"
    )
    return parser


if __name__ == "__main__":
    main()
