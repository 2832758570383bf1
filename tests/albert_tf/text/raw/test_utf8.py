import shutil
import subprocess

import pytest

from albert_tf.text.raw.utf8 import TRACE, Utf8Census

FRENCH = "La pluie a cessé.\nL'été dernier, à la plage, ça allait très bien.\n"  # é é é à ç è


def census(text, size=1 << 20):
    counted = Utf8Census()
    for begin in range(0, len(text), size):
        counted.add(text[begin : begin + size])
    return counted


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
def test_wherever_the_parts_are_cut(size):
    text = ("Ein Wörterbuch, 字典, словарь 👍🏽\n" * 50).encode()
    assert not census(text, size).is_above_trace
    spoilt = text + FRENCH.encode("latin-1") * 50
    lines = census(spoilt, size).complaint("fr.txt")
    share = 50 * 6 / len(spoilt)
    assert census(spoilt, size).is_above_trace
    assert lines.startswith(
        f"fr.txt is not text in UTF-8: {share:.1%} of its bytes are not, the first of them"
    )
    assert " in line 51: " in lines


@pytest.mark.parametrize(("invalid", "is_above"), [(99, False), (100, False), (101, True)])
def test_a_trace_is_a_share_of_the_bytes(invalid, is_above):
    text = b"\xe9 " * invalid + b"a " * (50_000 - invalid)
    assert len(text) * TRACE == 100
    assert census(text).is_above_trace is is_above


def test_what_is_left_of_a_character_is_a_trace():
    for cut in (1, 2, 3):
        assert not census("👍".encode()[:cut]).is_above_trace
        assert not census("👍".encode()[cut:]).is_above_trace
    assert census("Élan été, ça".encode("latin-1")).is_above_trace


@pytest.mark.parametrize(
    ("text", "encoding", "command"),
    [
        (FRENCH, "latin-1", "iconv -f WINDOWS-1252 -t UTF-8 {0}.txt > {0}.utf8.txt"),
        ("“Naïve” – 5 €\n" + FRENCH, "cp1252", "iconv -f WINDOWS-1252 -t UTF-8 {0}.txt > {0}.utf8.txt"),
        ("Словарь\n" * 9, "koi8-r", "iconv -f ENCODING -t UTF-8 {0}.txt > {0}.utf8.txt"),
        ("辞書\n" * 9, "shift-jis", "iconv -f ENCODING -t UTF-8 {0}.txt > {0}.utf8.txt"),
    ],
)
@pytest.mark.parametrize("name", ["text", "a text"])
def test_the_command_converts_the_text(text, encoding, command, name, tmp_path):
    (tmp_path / f"{name}.txt").write_bytes(text.encode(encoding))
    complaint = census(text.encode(encoding)).complaint(f"{name}.txt")
    expected = command.format("text") if name == "text" else None
    typed = complaint.partition("`")[2].partition("`")[0]
    assert expected in (None, typed)
    if shutil.which("iconv") is None:
        pytest.skip("no iconv here")
    subprocess.run(typed.replace("ENCODING", encoding), shell=True, cwd=tmp_path, check=True)
    assert (tmp_path / f"{name}.utf8.txt").read_text("utf-8") == text


def test_of_text_that_is_mostly_utf8_the_rest_is_left_out(tmp_path):
    text = ("Словарь\n" * 99).encode()
    (tmp_path / "text.txt").write_bytes(text + b"\xe9\xe8\xe7\xe0")
    complaint = census((tmp_path / "text.txt").read_bytes()).complaint("text.txt")
    typed = complaint.partition("`")[2].partition("`")[0]
    assert typed == "iconv -c -f UTF-8 -t UTF-8 text.txt > text.utf8.txt"
    if shutil.which("iconv") is None:
        pytest.skip("no iconv here")
    subprocess.run(typed, shell=True, cwd=tmp_path, check=False)  # glibc's tells by its status
    assert (tmp_path / "text.utf8.txt").read_bytes() == text
