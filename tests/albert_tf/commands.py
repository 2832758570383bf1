"""Commands as users type them, in this process."""

from albert_tf import cli


def mistake(capsys, *words) -> str:
    """The one line that a wrong command line ends in."""
    try:
        status = cli.run([str(word) for word in words])
    except SystemExit as exit:
        status = exit.code
    output = capsys.readouterr()
    assert status == 2
    assert output.out == ""
    assert output.err.count("\n") == 1, output.err
    assert output.err.startswith("albert-tf")
    return output.err
