import hashlib

import pytest

from albert_tf.raw_text.identity import difference, file_identities


def identities(folder, **contents):
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return file_identities([str(folder / name) for name in contents])


def test_small_files_are_read_whole(tmp_path):
    (found,) = identities(tmp_path, text=b"abc")
    assert found == {"name": "text", "bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}


def test_large_files_are_sampled_from_the_first_byte_to_the_last(tmp_path):
    content = bytearray(1 << 22)
    before = identities(tmp_path, text=content)
    for place, is_seen in ((0, True), (len(content) - 1, True), (1 << 17, False)):
        content[place] ^= 1
        assert (identities(tmp_path, text=content) != before) == is_seen
        content[place] ^= 1


@pytest.mark.parametrize(
    ("now", "message"),
    [
        ({"a": b"1", "b": b"2"}, None),
        ({"a": b"1"}, "b is missing"),
        ({"a": b"1", "b": b"2", "c": b"3"}, "c is new"),
        ({"b": b"2", "a": b"1"}, "b stands where a was"),
        ({"a": b"1", "b": b"3"}, "b has changed"),
        ({"a": b"1", "b": b"23"}, "1 bytes before, 2 now"),
    ],
)
def test_differences_are_named(tmp_path, now, message):
    before = identities(tmp_path / "before", a=b"1", b=b"2")
    found = difference(before, identities(tmp_path / "now", **now))
    assert found is None if message is None else message in found
