import gzip

import pytest

from albert_tf.errors import InputError
from albert_tf.text.files import check_text_files, decode_text

TEXT = "Ein Wörterbuch, 字典, словарь 👍🏽\n".encode() * 200
FRENCH = "La pluie a cessé.\n".encode("latin-1")


def check(path, content):
    path.write_bytes(content)
    check_text_files([str(path)])


def test_text_of_all_kinds(tmp_path):
    for content in (b"", TEXT.replace(b" ", b"\0"), b"a\r\n", b"\xef\xbb\xbf" + TEXT, TEXT * 500):
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
        (TEXT.replace(b"\n", b"\r") + FRENCH, 201),
        (TEXT.replace(b"\n", b"\r\n") * 500 + FRENCH, 100_001),  # one pair on both sides of a part's border
        (b"x" * ((1 << 20) - 1) + b"\r\n" + FRENCH, 2),
    ],
)
def test_the_first_line_that_is_not_utf8_is_named(content, line, tmp_path):
    for name, stored in (("text.txt", content), ("text.gz", gzip.compress(content, 1))):
        with pytest.raises(InputError, match=rf"{name}:{line}: not UTF-8"):
            check(tmp_path / name, stored)
    with pytest.raises(InputError, match=rf"text:{line}: not UTF-8"):
        decode_text(content, "text")


def test_whole_text_loses_its_byte_order_mark():
    assert decode_text(b"\xef\xbb\xbf" + TEXT, "text") == TEXT.decode()


def flipped(position):
    content = bytearray(gzip.compress(TEXT))
    content[position] ^= 4
    return bytes(content)


@pytest.mark.parametrize(
    "content",
    [gzip.compress(TEXT)[:-1], gzip.compress(TEXT)[:-100], flipped(30), flipped(-6), TEXT],
    ids=["a byte short", "100 bytes short", "data flipped", "checksum flipped", "not packed"],
)
def test_a_damaged_compressed_file(content, tmp_path):
    with pytest.raises(InputError, match=r"text\.gz is damaged or cut off"):
        check(tmp_path / "text.gz", content)


def test_a_mended_file_is_checked_again(tmp_path):
    for _ in range(2):
        with pytest.raises(InputError, match="damaged"):
            check(tmp_path / "text.gz", gzip.compress(TEXT)[:-3])
        check(tmp_path / "text.gz", gzip.compress(TEXT))
