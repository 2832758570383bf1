"""What stands where a command is to write stays, and nobody is told to remove it."""

import pytest

import albert_tf
from albert_tf import cli
from hub_export.__main__ import main as hub_export
from tests.albert_tf.commands import mistake, pretraining
from tests.tiny import TINY


@pytest.fixture
def commands(tiny_corpus, tiny_vocabulary, tmp_path):
    """The command lines, but for the output; the current folder's content beside them."""
    run = tmp_path / "run"
    albert_tf.save(albert_tf.AlbertPretrainer(TINY), run, vocabulary=tiny_vocabulary)
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    return {
        "vocab": ["vocab", "--input", tiny_corpus, "--vocab_size", 200],
        "prepare": ["prepare", "--input", tiny_corpus, "--vocabulary", tiny_vocabulary],
        "pretrain": pretraining(tiny_corpus, tiny_vocabulary, tmp_path / "new"),
        "convert to google": ["convert", "--from", "run", "--to", "google", "--input", run],
        "convert to huggingface": ["convert", "--from", "run", "--to", "huggingface", "--input", run],
        "convert to run": ["convert", "--from", "google", "--to", "run", "--input", run],
        "analyse": ["analyse", "curve", "--run", run],
        "hub_export": ["--run", run, "--seq_length", 32],
    }


def refused(command, words, capsys) -> str:
    """The line that a command ends in."""
    line = mistake(capsys, *words, run=hub_export if command == "hub_export" else cli.run)
    assert "Errno" not in line
    assert "remove" not in line and "delete" not in line
    return line


def content(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_what_is_there_stays(commands, tmp_path, monkeypatch, capsys):
    """An empty name is refused, a file that is there, a folder that is full, another machine."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text("The only copy of a corpus.\n")
    before = content(tmp_path)
    local = ("vocab", "convert to google", "hub_export")
    for command, words in commands.items():
        if command in local:  # at once, and whatever else is wrong
            assert "gs://bucket/place" in refused(command, [*words, "--output", "gs://bucket/place"], capsys)
        assert "--output is empty" in refused(command, [*words, "--output", ""], capsys)
        assert "corpus.txt" in refused(command, [*words, "--output", "corpus.txt"], capsys)
        if command.startswith(("pretrain", "convert")):
            assert str(tmp_path) in refused(command, [*words, "--output", "."], capsys)
    assert content(tmp_path) == before
