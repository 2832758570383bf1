"""What commands show of what is logged, by absl's flags; in processes, since a process has one log."""

import re
import subprocess
import sys

import pytest

PREFIX = r"[IE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ (\w+)\.py:1\] "

# Says the same from a file of the project and from another.
SCRIPT = """
import sys
from pathlib import Path
import albert_tf
from albert_tf.program import Command, OneLineParser, run_command

def work():
    for file in (Path(albert_tf.__file__).with_name("ours.py"), Path("library.py").resolve()):
        for level in ("info", "error"):
            line = f"from absl import logging; logging.{level}('{level} of {file.stem}, 100%')"
            exec(compile(line, file, "exec"), {})
    print("a result")

def parsed(words):
    OneLineParser(prog="it").parse_args(words)
    return Command("it", work)

sys.exit(run_command(parsed, sys.argv[1:]))
"""

OURS = ["info of ours, 100%", "error of ours, 100%"]
ALL = [*OURS, "info of library, 100%", "error of library, 100%"]


def run(*flags):
    done = subprocess.run([sys.executable, "-c", SCRIPT, *flags], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr.splitlines()


@pytest.mark.parametrize(
    ("flags", "shown"),
    [([], [ALL[0], ALL[1], ALL[3]]), (["--verbosity=-1"], [ALL[1], ALL[3]]), (["-v", "1"], ALL)],
)
def test_what_is_shown_and_how(flags, shown):
    status, output, lines = run(*flags)
    assert (status, output) == (0, "a result\n")
    assert [re.sub(PREFIX, "", line) for line in lines] == shown
    for line in lines:
        assert bool(re.match(PREFIX, line)) == ("of ours," not in line), line


def test_a_log_dir_holds_the_lines_with_their_times(tmp_path):
    assert run("--log_dir", str(tmp_path)) == (0, "a result\n", [])
    lines = (tmp_path / "albert-tf.INFO").read_text().splitlines()
    assert [re.sub(f"^{PREFIX}", "", line) for line in lines] == [ALL[0], ALL[1], ALL[3]]
    assert all(re.match(PREFIX, line) for line in lines)
