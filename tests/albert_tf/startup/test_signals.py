"""The first signal ends a command in order, the second ends its process at once, whatever it is doing."""

import os
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.startup.signals import first_signal

IN_C = "sum(range(10**12))"  # a function of C that gives Python no turn for hours
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
def test_the_second_ends_a_process_that_gives_python_no_turn(number):
    process = start(f"print('ready', flush=True)\n{IN_C}")
    time.sleep(0.2)
    process.send_signal(number)
    time.sleep(0.5)
    assert process.poll() is None  # or else this test tests nothing
    process.send_signal(number)
    assert end(process) == (-number, "", [])


@pytest.mark.parametrize("second", BOTH)
def test_the_second_ends_what_only_notes_the_first(second):
    code = f"""
came = []
with first_signal({{number: lambda *_: came.append(1) for number in (signal.SIGTERM, signal.SIGINT)}}):
    print('ready', flush=True)
    while not came:
        pass
    print('noted', flush=True)
{IN_C}  # outside, too: the handlers that were there before are not back"""
    process = start(code)
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "noted\n"
    process.send_signal(second)
    assert end(process) == (-second, "", [])


def test_without_a_signal_all_is_as_before():
    code = f"with first_signal({{signal.SIGTERM: print}}):\n    pass\nprint('ready', flush=True)\n{IN_C}"
    process = start(code)
    time.sleep(0.5)  # until it computes: between two lines of Python the first one would end it
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert end(process) == (-signal.SIGTERM, "", [])


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
