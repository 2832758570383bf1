"""The smallest setting of several benchmarks in one process; run by test_smoke.py.

    python smoke_script.py OUTPUT MODULE…

The script adds a line of JSON to OUTPUT for each module: its name, its output, and its failure.
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
    """The output of a module that runs as a program, and its traceback."""
    sys.argv, printed = [module, "--smoke"], io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as error:
        return printed.getvalue(), str(error.code or "")
    except Exception:
        return printed.getvalue(), traceback.format_exc()
    return printed.getvalue(), ""


if __name__ == "__main__":
    # It takes longer than such small graphs run.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    output, *modules = sys.argv[1:]
    for module in modules:
        with Path(output).open("a", encoding="utf-8") as file:
            file.write(json.dumps([module, *run(module)]) + "\n")
