import gzip
import os

import pytest

from albert_tf.text.raw.checks import check_is_text, check_text_files

TEXT = "Ein Wörterbuch, 字典, словарь 👍🏽\n".encode() * 200


def check(path, content):
    path.write_bytes(content)
    check_text_files([str(path)])


def test_text_of_all_kinds(tmp_path):
    for content in (b"", b"\0\xff\xfe", b"\0" * 511, TEXT, TEXT[1:4095], TEXT.replace(b" ", b"\0"), b"a\r\n"):
        check(tmp_path / "text.txt", content)
        check(tmp_path / "text.gz", gzip.compress(content))
    check(tmp_path / "text.gz", gzip.compress(TEXT) + gzip.compress(TEXT))  # as `cat` joins them


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            TEXT.decode().encode("utf-16"),
            r"but in UTF-16, from line 1: convert it \(`.*iconv -f UTF-16 -t UTF-8",
        ),
        (
            ("словарь и " * 200).encode("cp1251"),
            r"80\.0% of its bytes are not, .* in line 1: convert it \(`.*iconv",
        ),
        (("辞書" * 500).encode("shift-jis"), r"\d+\.\d% of its bytes are not, the first of them in line 1"),
        (
            gzip.compress(os.urandom(9000)),
            r"\d+% of how it begins is control characters .*convert it \(`.*iconv",
        ),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, r"\d+% of how it begins is control characters"),
        (b"\0" * 512, "100% of how it begins is control characters"),
    ],
)
def test_what_is_not_text(content, message, tmp_path):
    for name, stored in (("text.txt", content), ("text.gz", gzip.compress(content))):
        with pytest.raises(ValueError, match=rf"{name} is not text in UTF-8:? {message}.*, or leave it out"):
            check(tmp_path / name, stored)


FRENCH = "La pluie a cessé.\nL'été dernier, à la plage, ça allait très bien.\n"  # 6 of 66 bytes


@pytest.mark.parametrize("times", [1, 200_000])  # read whole; larger than all samples together
def test_latin_1(times, tmp_path):
    message = r"9\.1% of its bytes are not, the first of them in line 1: convert it \(`"
    command = r"iconv -f WINDOWS-1252 -t UTF-8 .*text\.txt > .*text\.utf8\.txt"
    with pytest.raises(ValueError, match=rf"text\.txt is not text in UTF-8: {message}{command}`"):
        check(tmp_path / "text.txt", FRENCH.encode("latin-1") * times)
    with pytest.raises(ValueError, match=rf"text\.gz is not text in UTF-8: {message}gunzip -c .*text\.gz \|"):
        check(tmp_path / "text.gz", gzip.compress(FRENCH.encode("latin-1") * times, 1))


@pytest.mark.parametrize("place", [0.0, 0.31, 0.5, 0.77, 1.0])
def test_a_part_in_another_encoding_is_found_wherever_it_is(place, tmp_path):
    """A twentieth of a file of 8 MiB: half a per cent of its bytes."""
    rest, part = TEXT * 1000, FRENCH.encode("latin-1") * 5000
    before = int(len(rest) * place) // len(TEXT) * len(TEXT)
    line = rest.count(b"\n", 0, before) + 1
    with pytest.raises(ValueError, match=rf"the first of them in line {line}: .*iconv -c -f UTF-8"):
        check(tmp_path / "text.txt", rest[:before] + part + rest[before:])


def test_the_whole_file_decides_not_a_sample(tmp_path):
    """A page in another encoding is a trace of a large corpus, also where a sample meets it."""
    page = FRENCH.encode("latin-1") * 60
    check(tmp_path / "text.txt", page + TEXT * 1000)
    with pytest.raises(ValueError, match="in line 1:"):
        check(tmp_path / "text.txt", page + TEXT * 10)


def test_only_the_beginning_is_looked_at_for_control_characters():
    check_is_text(b"a" * 411 + b"\0" * 100, "text.txt")
    with pytest.raises(ValueError, match="20% of how it begins"):
        check_is_text(b"a" * 411 + b"\0" * 104, "text.txt")


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "gz"])
def test_json_lines_are_refused_with_what_reads_them(suffix, tmp_path):
    lines = '{"text": "Ein Wörterbuch."}\n\n{"title": "x", "text": "словарь"}\n'.encode()
    for content in (lines, b"\xef\xbb\xbf" + lines, lines * 1000):
        stored = gzip.compress(content) if suffix == "gz" else content
        with pytest.raises(
            ValueError, match=rf"web\.{suffix} holds JSON objects.*`albert-tf prepare --input_format jsonl"
        ):
            check(tmp_path / f"web.{suffix}", stored)


def test_json_among_text_is_text(tmp_path):
    check(tmp_path / "text.txt", b'{"text": "a"}\nThis is how a line of JSON looks.\n')
    check(tmp_path / "text.txt", b'{\n  "text": "a"\n}\n')


WESTERN, RUSSIAN = "Ein Wörterbuch und ein Atlas.\n" * 9, "Что это, словарь или атлас?\n" * 9


@pytest.mark.parametrize("text", [WESTERN, RUSSIAN, RUSSIAN * 100], ids=["western", "russian", "long"])
@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
def test_utf_16_without_a_byte_order_mark_is_named(text, encoding, tmp_path):
    command = rf"`iconv -f {encoding} -t UTF-8 .*text\.txt > .*utf8\.txt`"
    with pytest.raises(ValueError, match=rf"text\.txt is not .* but in {encoding}, .*convert it \({command}"):
        check(tmp_path / "text.txt", text.encode(encoding))


def test_text_with_nuls_in_it_is_not_utf_16(tmp_path):
    for content in (b"a\0b\0c\0", b"abc\0" * 10 + TEXT, TEXT.replace(b"\n", b"\0\n"), b"\0" * 511):
        check(tmp_path / "text.txt", content)


@pytest.mark.parametrize("cut", [1, 8, 9, 100])
def test_compressed_file_that_is_cut_off(cut, tmp_path):
    with pytest.raises(
        ValueError, match=r"text\.gz is damaged or cut off .*: make or copy it again, or rename"
    ):
        check(tmp_path / "text.gz", gzip.compress(TEXT)[:-cut])


@pytest.mark.parametrize("position", [30, 60, -6, -2])
def test_compressed_file_with_a_flipped_bit(position, tmp_path):
    content = bytearray(gzip.compress(TEXT))
    content[position] ^= 4
    with pytest.raises(ValueError, match=r"text\.gz is (damaged or cut off|not text)"):
        check(tmp_path / "text.gz", bytes(content))


def test_what_is_not_compressed(tmp_path):
    with pytest.raises(
        ValueError, match=r"text\.gz is damaged or cut off \(Not a gzipped file.*not compressed"
    ):
        check(tmp_path / "text.gz", TEXT)


def test_a_mended_file_is_looked_at_again(tmp_path):
    with pytest.raises(ValueError, match="damaged"):
        check(tmp_path / "text.gz", gzip.compress(TEXT)[:-3])
    check(tmp_path / "text.gz", gzip.compress(TEXT))
    with pytest.raises(ValueError, match="damaged"):
        check(tmp_path / "text.gz", gzip.compress(TEXT)[:-3])
