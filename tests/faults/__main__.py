"""Puts one fault at a time into a copy of the code and prints whether its tests notice.

python -m tests.faults                    all of them, about twenty minutes on two cores
python -m tests.faults masking lamb       those whose description contains one of these words

Exit status 1 if a fault survives. Run it by hand when tests are removed or rewritten.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faults.table import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("albert_tf", "hub_export", "tests", "pyproject.toml", "demo.py", "README.md")
TESTS_FAILED = 1  # pytest's exit status; others say that nothing was tested


def put_in(fault: Fault, root: Path) -> None:
    """Writes a fault into a copy of the code; ValueError unless its text occurs exactly once."""
    path = root / fault.file
    text = path.read_text("utf-8")
    if text.count(fault.right) != 1:
        raise ValueError(f"{fault.file} has {fault.right!r} {text.count(fault.right)} times, not once")
    path.write_text(text.replace(fault.right, fault.wrong), "utf-8")


def is_caught(fault: Fault, root: Path) -> bool:
    """True if the fault's tests fail with it; RuntimeError if they do not run."""
    original = (root / fault.file).read_text("utf-8")
    put_in(fault, root)
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", *fault.tests]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    finally:
        (root / fault.file).write_text(original, "utf-8")
    if result.returncode not in (0, TESTS_FAILED):
        raise RuntimeError(f"{fault.description}: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result.returncode == TESTS_FAILED


def main(words: list[str]) -> int:
    """Prints a line a fault and returns the exit status."""
    faults = [fault for fault in FAULTS if not words or any(word in fault.description for word in words)]
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "code"
        root.mkdir()
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, root / name)
        if (ROOT / "../shared").is_dir():  # recorded outputs
            (Path(folder) / "shared").symlink_to((ROOT / "../shared").resolve())
        for fault in faults:
            started = time.monotonic()
            caught = is_caught(fault, root)
            survivors += not caught
            seconds = time.monotonic() - started
            print(f"{'caught' if caught else 'SURVIVED':8} {seconds:4.0f} s  {fault.description}", flush=True)
    print(f"{len(faults) - survivors} of {len(faults)} faults are caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
