import gzip
import os

import pytest

from albert_tf.raw_text.checks import check_text_files, decode_text
from albert_tf.utils.errors import InputError

TEXT = "Ein Wörterbuch, 字典, словарь 👍🏽\n".encode() * 200
FRENCH = "La pluie a cessé.\n".encode("latin-1")


def check(path, content):
    path.write_bytes(content)
    check_text_files([str(path)])


def test_text_of_all_kinds(tmp_path):
    for content in (b"", TEXT, TEXT.replace(b" ", b"\0"), b"a\r\n", b"\xef\xbb\xbf" + TEXT, TEXT * 500):
        check(tmp_path / "text.txt", content)
        check(tmp_path / "text.gz", gzip.compress(content, 1))
    check(tmp_path / "text.gz", gzip.compress(TEXT) + gzip.compress(TEXT))  # as `cat` joins them


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (TEXT + FRENCH + TEXT, 201),
        (TEXT * 500 + FRENCH, 100_001),
        (TEXT + "字".encode()[:2], 201),  # cut off in a character
        (TEXT.decode().encode("utf-16"), 1),
        (TEXT.decode().encode("utf-16-le"), 1),
        (b"Ein Atlas.\n".decode().encode("utf-16-be"), 1),
        ("Что это, словарь?\n".encode("utf-16-le"), 1),
        (("словарь и " * 200).encode("cp1251"), 1),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4, 1),
        (gzip.compress(os.urandom(9000)), None),
    ],
)
def test_what_is_not_text(content, line, tmp_path):
    for name, stored in (("text.txt", content), ("text.gz", gzip.compress(content, 1))):
        with pytest.raises(InputError, match=rf"{name}:{line or ''}.*iconv"):
            check(tmp_path / name, stored)
    with pytest.raises(InputError, match=rf"text:{line or ''}.*iconv"):
        decode_text(content, "text")


def test_whole_text_loses_its_byte_order_mark():
    assert decode_text(b"\xef\xbb\xbf" + TEXT, "text") == TEXT.decode()


@pytest.mark.parametrize("suffix", ["txt", "jsonl", "gz"])
def test_json_lines_are_refused_with_what_reads_them(suffix, tmp_path):
    lines = '{"text": "Ein Wörterbuch."}\n\n{"title": "x", "text": "словарь"}\n'.encode()
    for content in (lines, b"\xef\xbb\xbf" + lines, lines * 1000):
        stored = gzip.compress(content) if suffix == "gz" else content
        with pytest.raises(InputError, match=rf"web\.{suffix} .*--input_format jsonl"):
            check(tmp_path / f"web.{suffix}", stored)


def test_json_among_text_is_text(tmp_path):
    check(tmp_path / "text.txt", b'{"text": "a"}\nThis is how a line of JSON looks.\n')
    check(tmp_path / "text.txt", b'{\n  "text": "a"\n}\n')


@pytest.mark.parametrize("cut", [1, 8, 9, 100])
def test_compressed_file_that_is_cut_off(cut, tmp_path):
    with pytest.raises(InputError, match=r"text\.gz is damaged or cut off"):
        check(tmp_path / "text.gz", gzip.compress(TEXT)[:-cut])


@pytest.mark.parametrize("position", [30, 60, -6, -2])
def test_compressed_file_with_a_flipped_bit(position, tmp_path):
    content = bytearray(gzip.compress(TEXT))
    content[position] ^= 4
    with pytest.raises(InputError, match=r"text\.gz"):
        check(tmp_path / "text.gz", bytes(content))


def test_what_is_not_compressed(tmp_path):
    with pytest.raises(InputError, match=r"text\.gz is damaged or cut off .*not compressed"):
        check(tmp_path / "text.gz", TEXT)


def test_a_mended_file_is_checked_again(tmp_path):
    for _ in range(2):
        with pytest.raises(InputError, match="damaged"):
            check(tmp_path / "text.gz", gzip.compress(TEXT)[:-3])
        check(tmp_path / "text.gz", gzip.compress(TEXT))
