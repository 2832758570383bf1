"""The smallest setting of several benchmarks in one process; run by test_smoke.py.

    python smoke_script.py OUTPUT COMMAND…

COMMAND is `benchmarks/NAME.py` or `-m benchmarks.NAME`, in one word. OUTPUT gets a line of JSON for each: the
command, what it printed, and how it failed.
"""

import contextlib
import io
import json
import runpy
import sys
import traceback
from pathlib import Path

import tensorflow as tf

ROOT = Path(__file__).resolve().parents[2]


def run(command: str) -> tuple[str, str]:
    """What a command prints, and the traceback it ends with."""
    module = command.removeprefix("-m ")
    path, sys.argv, printed = sys.path[:], [command, "--smoke"], io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            if module != command:
                runpy.run_module(module, run_name="__main__", alter_sys=True)
            else:
                sys.path.insert(0, str(ROOT / "benchmarks"))  # as Python does for a script
                runpy.run_path(command, run_name="__main__")
    except SystemExit as ending:
        return printed.getvalue(), str(ending.code or "")
    except Exception:
        return printed.getvalue(), traceback.format_exc()
    finally:
        sys.path[:] = path
    return printed.getvalue(), ""


if __name__ == "__main__":
    # Which takes longer than to run such small graphs once.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    output, *commands = sys.argv[1:]
    for command in commands:
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(json.dumps([command, *run(command)]) + "\n")
