"""What commands end with: the same status and one line for the same mistake, whichever command it is."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from albert_tf.errors import InputError, Preempted, Terminated, WorkFailed
from albert_tf.program import error_line, exit_status, report_error


def of_system(number, *names):
    return OSError(number, os.strerror(number), *names)


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (InputError("steps=0 must be\nat least 1"), 2, "steps=0 must be at least 1"),
        (FileNotFoundError("nowhere: no such file"), 2, "nowhere: no such file"),
        (of_system(errno.ENOENT, "nowhere"), 2, "nowhere: No such file or directory: correct the path"),
        (of_system(errno.EEXIST, b"bytes"), 2, "bytes: File exists"),
        (of_system(errno.EROFS, "x"), 2, "x: Read-only file system"),
        (BlockingIOError("run is in use"), 2, "run is in use"),
        (of_system(errno.ENOSPC, "v.model"), 1, "v.model: No space left on device"),
        (OSError("cannot write x: no space left"), 1, "cannot write x: no space left"),
        (WorkFailed("NaN"), 1, "NaN"),
        (Preempted("stopped by SIGTERM"), 75, "stopped by SIGTERM"),
        (Terminated(143), 143, "stopped by SIGTERM"),
        (RuntimeError("MISMATCH: ORIGINAL X REPLACED BY Terminated: 75\n\nAt:\n"), 75, "stopped by SIGTERM"),
        (KeyboardInterrupt("after step 3"), 130, "after step 3"),
    ],
)
def test_statuses_and_lines(error, status, line, capsys, monkeypatch):
    assert report_error(error, "it") == status
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", f"it: {line}\n")
    monkeypatch.setenv("ALBERT_TF_TRACEBACK", "1")
    with pytest.raises(type(error)):
        report_error(error, "it")


def test_unforeseen_errors_are_raised_again(capsys):
    with pytest.raises(ValueError, match="x"):
        report_error(ValueError("x"), "it")
    assert capsys.readouterr() == ("", "")


def test_arguments_are_named_as_flags(capsys):
    report_error(InputError("`output` and `other` are there"), "it", ["output"])
    assert capsys.readouterr().err == "it: --output and `other` are there\n"


def in_a_loop():
    @tf.function
    def divide(n):
        total = tf.zeros([], tf.int32)
        for i in tf.range(n):
            total += 10 // (i - 3)
        return total

    divide(tf.constant(6))


def in_a_pipeline():
    message = ["fr[1].tfrecord", "is damaged: copy it again"]

    def refuse(x):
        with tf.control_dependencies([tf.debugging.Assert(x < 0, message)]):
            return tf.identity(x)

    iterator = iter(tf.data.Dataset.range(3).map(refuse))
    tf.function(lambda: next(iterator))()


def in_two_places():
    raise tf.errors.InvalidArgumentError(
        None,
        None,
        "2 root error(s) found.\n  (0) INVALID_ARGUMENT: Integer division by zero\n"
        "\t [[{{node a/floordiv}}]]\n\t [[b/_3]]\n  (1) CANCELLED: something else\n0 successful operations.",
    )


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        (in_a_loop, r"Integer division by zero"),
        (in_a_pipeline, r"fr\[1\]\.tfrecord is damaged: copy it again"),
        (in_two_places, r"Integer division by zero"),
        (lambda: tf.io.write_file("/dev/full", "x" * 10**5), r"/dev/full; No space left on device"),
    ],
)
def test_of_tensorflows_messages_the_line_that_says_what_is_wrong(fail, expected):
    with pytest.raises(tf.errors.OpError) as raised:
        fail()
    assert exit_status(raised.value) == 1
    line = error_line(raised.value)
    assert line == line.strip()
    assert re.fullmatch(expected, line), line


def test_a_name_that_the_system_does_not_take_has_its_remedy(tmp_path):
    with pytest.raises(OSError, match="too long") as raised:
        (tmp_path / ("é" * 128)).stat()
    assert error_line(raised.value) == f"{tmp_path / ('é' * 128)}: File name too long: name another place"


def test_standard_output_that_cannot_be_written_is_one_line():
    """What its buffer holds is written only at the end."""
    script = """from albert_tf.program import run_program
run_program("it", "", lambda parser: None, lambda flags: print("x"), [])"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("wb") as full:
        words = [sys.executable, "-c", script]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, env=environment, check=False)
    line = b"python -m it: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, line)
