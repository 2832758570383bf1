"""Commands with --deterministic, which no process can turn off again; run by test_determinism.py.

    python deterministic_script.py RUN COMMAND…

COMMAND trains for six updates, once more from its beginning, and once more from the checkpoint of step 3.
"""

import shutil
import sys
from pathlib import Path

from tensorflow.python.framework.config import is_op_determinism_enabled

from albert_tf import cli


def main(run: Path, words: list[str]) -> None:
    """Writes `RUN`, `RUN-again` and `RUN-resumed`."""
    again, resumed = (Path(f"{run}-{name}") for name in ("again", "resumed"))
    for output in (run, again):
        assert cli.run([*words, "--output", str(output), "--deterministic"]) == 0
    assert is_op_determinism_enabled()
    shutil.copytree(run, resumed)
    for file in resumed.rglob("ckpt-6.*"):
        file.unlink()
    assert cli.run([*words, "--output", str(resumed), "--deterministic"]) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
