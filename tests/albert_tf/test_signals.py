"""SIGTERM and Ctrl-C end a command in order, with its status and one line."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from albert_tf import signals
from albert_tf.signals import signal_handlers


def start(code, ignored=""):
    """A process that does this work of a command, once it is ready for signals."""
    head = "import signal, sys, time\nfrom albert_tf.program import report_error\n"
    head += "from albert_tf.signals import raise_on_termination, signal_handlers\nraise_on_termination(75)\n"
    words = ["sh", "-c", f'{ignored} exec "$0" -c "$1"', sys.executable, head + code]
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


@pytest.mark.parametrize(
    ("number", "status", "line"),
    [
        (signal.SIGTERM, 75, "it: stopped by SIGTERM"),
        (signal.SIGHUP, 75, "it: stopped by SIGHUP"),
        (signal.SIGINT, 130, "it: interrupted"),
    ],
)
def test_a_command_cleans_up(number, status, line):
    code = """
def work():
    try:
        print("ready", flush=True)
        time.sleep(99)
    finally:
        print("clean")

try:
    work()
except BaseException as error:
    sys.exit(report_error(error, "it"))"""
    process = start(code)
    process.send_signal(number)
    assert end(process) == (status, "clean\n", [line])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_ends_that_waits_outside_of_python(number, tmp_path):
    """As TensorFlow does for a pipe that nobody writes to; a handler of Python's does not run then."""
    os.mkfifo(tmp_path / "pipe")
    code = f"""
import ctypes
libc = ctypes.CDLL(None)

def work():
    print("ready", flush=True)
    while libc.open({os.fsencode(tmp_path / "pipe")!r}, 0) < 0:  # again where a signal has interrupted it
        libc.usleep(1)

def deaf():
    libc.siginterrupt({number.value}, 0)
    work()

try:
    deaf()
except BaseException as error:
    sys.exit(report_error(error, "it"))"""
    process = start(code)
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(number)
    assert end(process) == (75, "", [f"stopped by {number.name}"])
    assert time.monotonic() - began < 5


def test_nohup_is_respected():
    process = start("print('ready', flush=True)\ntime.sleep(1)", ignored="trap '' HUP;")
    process.send_signal(signal.SIGHUP)
    assert end(process) == (0, "", [])


def test_what_the_shell_ignores_stays_ignored():
    code = "with signal_handlers({signal.SIGINT: print}):\n    print('ready', flush=True)\n    time.sleep(1)"
    process = start(code, ignored="trap '' INT;")
    process.send_signal(signal.SIGINT)
    assert end(process) == (0, "", [])


def test_a_program_s_own_handler_comes_back():
    met = []
    before = signal.signal(signal.SIGTERM, lambda *_: met.append("its own"))
    try:
        with signal_handlers({signal.SIGTERM: lambda *_: met.append("first")}):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert met == ["first", "its own"]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_second_ctrl_c_ends_a_wait_for_input(monkeypatch, caplog):
    """The first one is heeded after the step, and says so."""
    ended, over = [], threading.Event()

    def end(status, line):
        ended.append(status)
        over.set()

    monkeypatch.setattr(signals, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(signals, "exit_now", end)
    with signals.PreemptionNotice(lambda: True, lambda: True) as notice:
        os.kill(os.getpid(), signal.SIGINT)
        assert not over.wait(0.5)
        assert notice.received == signal.SIGINT
        (line,) = caplog.messages
        assert "Ctrl-C" in line
        os.kill(os.getpid(), signal.SIGINT)
        assert over.wait(5)
    assert set(ended) == {130}
    assert caplog.messages == [line]
