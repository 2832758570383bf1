"""The first signal ends a command in order, the second ends it at once."""

import os
import signal
import subprocess
import sys

import pytest

from albert_tf.startup.signals import first_signal

BOTH = (signal.SIGTERM, signal.SIGINT)


def start(code, ignored=""):
    """A process that runs some code of a command, once it is ready for signals."""
    head = "import signal, sys, time\nfrom albert_tf.startup.signals import end_in_order, first_signal\n"
    code = f"{head}end_in_order(75)\n{code}"
    words = ["sh", "-c", f'{ignored} exec "$0" -c "$1"', sys.executable, code]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def end(process):
    """Its exit status, its output and what it said last."""
    try:
        output, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    return process.returncode, output, errors.splitlines()[-1:]


@pytest.mark.parametrize("number", BOTH)
def test_the_first_lets_a_command_clean_up(number):
    process = start("try:\n    print('ready', flush=True)\n    time.sleep(99)\nfinally:\n    print('clean')")
    process.send_signal(number)
    expected = (75, "clean\n", []) if number == signal.SIGTERM else (-2, "clean\n", ["KeyboardInterrupt"])
    assert end(process) == expected


@pytest.mark.parametrize(
    ("number", "status", "line"),
    [(signal.SIGTERM, 75, "it: stopped by SIGTERM"), (signal.SIGINT, 130, "it: interrupted")],
)
def test_a_library_that_makes_another_error_of_it_changes_nothing(number, status, line):
    code = """
from albert_tf.startup.exits import outcome

def work():
    try:
        print("ready", flush=True)
        time.sleep(99)
    except BaseException as error:
        raise RuntimeError(f"a task failed: {error!r}")

sys.exit(outcome("it", work))"""
    process = start(code)
    process.send_signal(number)
    assert end(process) == (status, "", [line])


@pytest.mark.parametrize("number", BOTH)
def test_the_second_ends_a_command_that_cleans_up(number):
    process = start(
        "try:\n    print('ready', flush=True)\n    time.sleep(99)\n"
        "finally:\n    print('noted', flush=True)\n    time.sleep(99)"
    )
    process.send_signal(number)
    assert process.stdout.readline() == "noted\n"
    process.send_signal(number)
    assert end(process) == (-number, "", [])


def test_the_second_ends_what_only_notes_the_first():
    code = """
came = []
with first_signal({number: lambda *_: came.append(1) for number in (signal.SIGTERM, signal.SIGINT)}):
    print('ready', flush=True)
    while not came:
        pass
    print('noted', flush=True)
    time.sleep(99)"""
    process = start(code)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "noted\n"
    process.send_signal(signal.SIGTERM)
    assert end(process) == (75, "", [])


def test_what_the_shell_ignores_stays_ignored():
    code = "with first_signal({signal.SIGINT: print}):\n    print('ready', flush=True)\n    time.sleep(1)"
    process = start(code, ignored="trap '' INT;")
    process.send_signal(signal.SIGINT)
    assert end(process) == (0, "", [])


def test_in_another_program_the_second_meets_its_own_handler():
    met = []
    before = signal.signal(signal.SIGTERM, lambda *_: met.append("its own"))
    own = signal.getsignal(signal.SIGTERM)
    try:
        with first_signal({signal.SIGTERM: lambda *_: met.append("first")}):
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        assert met == ["first", "its own"]
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
