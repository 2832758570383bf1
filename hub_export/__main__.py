"""`python -m hub_export`: the modules of a run directory."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from albert_tf.errors import InputError
from albert_tf.startup import OneLineParser, quiet_start

with quiet_start():
    from hub_export.check import CheckFailed
    from hub_export.export import export
    from hub_export.precision import DTYPES


def main(arguments: Sequence[str] | None = None) -> None:
    """Exports what the command line says.

    Args:
      arguments: the command line without the program's name; None reads the process's own.
    Raises:
      SystemExit: with one line on stderr and status 2 where the export is impossible, 1 where what was
        exported fails its check; with 143 on SIGTERM. Nothing is left half-written.
    """
    options = _parser().parse_args(arguments)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    try:
        folders = export(
            options.run,
            options.output,
            options.seq_length,
            encoder_only=options.encoder_only,
            version=options.version,
            dtype=options.dtype,
            step=options.step,
        )
    except (InputError, OSError, CheckFailed) as error:
        print(f"hub_export: {error}", file=sys.stderr)
        raise SystemExit(1 if isinstance(error, CheckFailed) else 2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    for folder in folders:
        print(folder)


def _terminated(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def _parser() -> OneLineParser:
    parser = OneLineParser(
        prog="python -m hub_export",
        description="Writes OUTPUT/preprocessor and OUTPUT/encoder, modules for hub.KerasLayer, "
        "and OUTPUT/serving/VERSION, a model for TF Serving.",
        allow_abbrev=False,
    )
    parser.add_argument("--run", required=True, help="run directory")
    parser.add_argument("--step", type=int, help="of the checkpoint to export (the newest)")
    parser.add_argument("--output", required=True, help="folder of the modules, each replaced as a whole")
    parser.add_argument(
        "--seq_length",
        type=int,
        default=128,
        help="the preprocessor's default length and the serving model's longest input, in tokens (128)",
    )
    parser.add_argument("--version", type=int, default=1, help="of the serving model; a new one (1)")
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="of variables and computation (float32)"
    )
    parser.add_argument(
        "--encoder_only", action="store_true", help="the encoder alone; a run without vocabulary needs it"
    )
    return parser


if __name__ == "__main__":
    main()
