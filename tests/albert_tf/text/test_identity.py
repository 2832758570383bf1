import hashlib

import pytest

from albert_tf.text.files import describe_difference, file_identities


def identities(folder, **contents):
    folder.mkdir(exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return file_identities([str(folder / name) for name in contents])


def test_small_files_are_read_whole_and_large_ones_from_the_first_byte_to_the_last(tmp_path):
    (found,) = identities(tmp_path, text=b"abc")
    assert found == {"name": "text", "bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()}
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
        ({"b": b"2", "a": b"1"}, "b has changed: it was a"),
        ({"a": b"1", "b": b"3"}, "b has changed"),
    ],
)
def test_differences_are_named(tmp_path, now, message):
    before = identities(tmp_path / "before", a=b"1", b=b"2")
    found = describe_difference(before, identities(tmp_path / "now", **now))
    assert found is None if message is None else message in found


def test_identities_of_older_versions_have_no_digest(tmp_path):
    assert describe_difference([{"name": "a", "bytes": 1}], identities(tmp_path, a=b"1")) is None
