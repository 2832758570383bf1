"""Files damaged at random: a clear error and nothing written, or a result as if nothing were."""

import shutil
import tarfile
import zlib

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion import convert

INDEX, DATA = "model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001"


def corrupted(content: bytes, rng) -> bytes:
    """One of the things that happen to files."""
    position = int(rng.integers(len(content)))
    size = int(rng.integers(1, 9))
    match rng.integers(4):
        case 0:
            return content[:position]
        case 1:
            return content[:position] + rng.bytes(size) + content[position + size :]
        case 2:
            return content[:position] + content[position + size :]
        case _:
            return (
                content[:position]
                + bytes([content[position] ^ (1 << rng.integers(8))])
                + content[position + 1 :]
            )


def weights(run):
    return {variable.name: variable.numpy() for variable in albert_tf.load(run).variables}


# 200 in all. A flipped bit of a safetensors tensor cannot be noticed: that format has no checksums.
SOURCES = {
    "google index": ("google", "tf1/shared", INDEX, 70),
    "google data": ("google", "tf1/shared", DATA, 50),
    "safetensors header": ("huggingface", "hf/groups", "model.safetensors", 80),
}


@pytest.mark.parametrize(("source", "case", "file", "times"), SOURCES.values(), ids=SOURCES)
def test_random_corruptions(golden, tmp_path, source, case, file, times):
    folder = shutil.copytree(golden / case, tmp_path / "source")
    convert(source, "run", folder, tmp_path / "expected")
    expected = weights(tmp_path / "expected")
    rng = np.random.default_rng(zlib.crc32(file.encode()))
    content = (folder / file).read_bytes()
    refused = 0
    for number in range(times):
        if source == "huggingface":
            length = 8 + int.from_bytes(content[:8], "little")
            damaged = corrupted(content[:length], rng) + content[length:]
        else:
            damaged = corrupted(content, rng)
        (folder / file).write_bytes(damaged)
        run = tmp_path / f"run{number}"
        try:
            convert(source, "run", folder, run)
        except ValueError as error:
            assert "\n" not in str(error) and str(folder) in str(error)
            assert not run.exists()
            refused += 1
        else:
            np.testing.assert_equal(weights(run), expected)
    assert refused > 0.9 * times
    assert {path.name for path in tmp_path.iterdir() if path.name.startswith(".")} == set()


@pytest.mark.parametrize("content", [b"", b"x" * 100])
def test_no_index(golden, tmp_path, content):
    folder = shutil.copytree(golden / "tf1" / "shared", tmp_path / "source")
    (folder / INDEX).write_bytes(content)
    with pytest.raises(ValueError, match=r"model\.ckpt-best\.index or its \.data file is damaged"):
        convert("google", "run", folder, tmp_path / "run")


def test_data_cut_off_or_missing(golden, tmp_path):
    folder = shutil.copytree(golden / "tf1" / "shared", tmp_path / "source")
    (folder / DATA).write_bytes((folder / DATA).read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"its \.data file is cut off, the index lists \d+ bytes"):
        convert("google", "run", folder, tmp_path / "run")
    (folder / DATA).unlink()
    with pytest.raises(ValueError, match=r"model\.ckpt-best\.index or its \.data file is damaged"):
        convert("google", "run", folder, tmp_path / "run")


def test_archives(golden, tmp_path):
    path = tmp_path / "albert.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(golden / "tf1" / "shared", "albert")
    content = path.read_bytes()
    rng = np.random.default_rng(1)
    damaged = [b"", b"no archive", content[: len(content) // 2]]
    damaged += [corrupted(content, rng) for _ in range(10)]
    for number, changed in enumerate(damaged):
        path.write_bytes(changed)
        with pytest.raises((ValueError, FileNotFoundError)) as caught:
            convert("google", "run", path, tmp_path / f"run{number}")
        assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["albert.tar.gz"]
