"""The record of where a run's weights began."""

from hashlib import sha256

from albert_tf.runs.run_directory import provenance_record


def hub_module(folder, index):
    (folder / "variables").mkdir(parents=True)
    (folder / "variables" / "variables.index").write_bytes(index)
    return f"hub:{folder}"


def test_an_origin_is_recorded_by_its_content(tmp_path):
    """A published name has none here, nor has what is not there; a begun run keeps what it has recorded."""
    contents = {"a": b"1", "b": b"1", "c": b"2"}
    first, copy, other = (hub_module(tmp_path / name, index) for name, index in contents.items())
    published = ("albert_base_v2", "https://tfhub.dev/google/albert_base/3")
    found = [provenance_record({}, origin) for origin in (first, copy, other, *published)]
    assert [record["init_from"] for record in found] == [first, copy, other, *published]
    one, two = (sha256(content).hexdigest() for content in (b"1", b"2"))
    assert [record["init_from_sha256"] for record in found] == [one, one, two, None, None]
    (tmp_path / "a" / "variables" / "variables.index").unlink()
    assert provenance_record(found[0], first) == found[0]
    assert provenance_record(found[0], copy) == found[1]
