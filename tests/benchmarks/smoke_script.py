"""The smallest setting of several benchmarks in one process; run by test_smoke.py.

    python smoke_script.py OUTPUT MODULE…

OUTPUT gets a line of JSON for each module: its name, what it printed, and how it failed.
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


def run(module: str) -> tuple[str, str]:
    """What a module prints as a program, and the traceback it ends with."""
    sys.argv, printed = [module, "--smoke"], io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        return printed.getvalue(), str(ending.code or "")
    except Exception:
        return printed.getvalue(), traceback.format_exc()
    return printed.getvalue(), ""


if __name__ == "__main__":
    # Which takes longer than to run such small graphs once.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    output, *modules = sys.argv[1:]
    for module in modules:
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(json.dumps([module, *run(module)]) + "\n")
