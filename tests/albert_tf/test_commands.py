import argparse

import pytest

from albert_tf.program import OneLineParser


@pytest.fixture
def parser():
    parser = OneLineParser(prog="tool")
    command = parser.add_subparsers(dest="command").add_parser("make")
    command.add_argument("--input", nargs="+", action="extend")
    command.add_argument("--output", default="here")
    command.add_argument("--number", type=int)
    return parser


@pytest.mark.parametrize(
    "words", [["--output", ""], ["--output="], ["--input", "a", "", "b"], ["--number", ""]]
)
def test_an_empty_value_is_refused(parser, words, capsys):
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(["make", *words])
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tool make: ")
    assert words[0].strip("=") in line


def test_what_is_not_given_is_as_it_was(parser):
    expected = argparse.Namespace(command="make", input=None, output="here", number=0)
    assert parser.parse_args(["make", "--number", "0"]) == expected


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["--outptu", "there"], "did you mean --output?"), (["--zzz=3"], ": --zzz=3 ("), (["x"], ": x (")],
)
def test_what_no_flag_takes_is_refused(words, meant, capsys):
    parser = OneLineParser(prog="tool")
    parser.add_argument("--output")
    with pytest.raises(SystemExit) as stopped:
        parser.parse_args(words)
    assert stopped.value.code == 2
    assert meant in capsys.readouterr().err
