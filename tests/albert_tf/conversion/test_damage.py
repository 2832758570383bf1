"""Files damaged at random: a clear error and nothing written, or a result as if nothing were."""

import errno
import gzip
import os
import shutil
import tarfile
import zlib

import numpy as np
import pytest

from albert_tf.conversion.convert import convert
from albert_tf.conversion.huggingface import open_safetensors
from albert_tf.errors import InputError
from tests.albert_tf.pretraining.runs import weights

INDEX, DATA = "model.ckpt-best.index", "model.ckpt-best.data-00000-of-00001"


def corrupted(content: bytes, rng) -> bytes:
    """One of the things that happen to files."""
    position, size = int(rng.integers(len(content))), int(rng.integers(1, 9))
    before, after = content[:position], content[position + size :]
    match rng.integers(4):
        case 0:
            return before
        case 1:
            return before + rng.bytes(size) + after
        case 2:
            return before + after
        case _:
            return before + bytes([content[position] ^ (1 << rng.integers(8))]) + content[position + 1 :]


def test_an_archive_that_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """tarfile takes any error at its beginning for that of another format."""
    archive = tmp_path / "albert.tar.gz"
    archive.write_bytes(b"")

    def read(self, size=-1):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(archive))

    monkeypatch.setattr(gzip.GzipFile, "read", read)
    with pytest.raises(OSError) as caught:
        convert("google", "run", archive, tmp_path / "run")
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(archive))


def test_weights_that_may_not_be_read_are_not_called_missing(tmp_path):
    """A folder stands for them: this process may read all."""
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(IsADirectoryError):
        open_safetensors(tmp_path / "model.safetensors")


# A flipped bit of a safetensors tensor cannot be noticed: that format has no checksums.
SOURCES = {
    "google index": ("google", "tf1/shared", INDEX),
    "google data": ("google", "tf1/shared", DATA),
    "safetensors header": ("huggingface", "hf/groups", "model.safetensors"),
    "archive": ("google", "tf1/shared", "albert.tar.gz"),
}


@pytest.mark.parametrize(("source", "case", "file"), SOURCES.values(), ids=SOURCES)
def test_random_corruptions(golden, tmp_path, source, case, file):
    folder = place = shutil.copytree(golden / case, tmp_path / "source")
    convert(source, "run", folder, tmp_path / "expected")
    expected = weights(tmp_path / "expected")
    if file == "albert.tar.gz":
        place = tmp_path / file
        with tarfile.open(place, "w:gz") as archive:
            archive.add(folder, "albert")
    path = place if place.is_file() else folder / file
    content = path.read_bytes()
    header = 8 + int.from_bytes(content[:8], "little") if source == "huggingface" else len(content)
    rng = np.random.default_rng(zlib.crc32(file.encode()))
    damaged = [b"", *(corrupted(content[:header], rng) + content[header:] for _ in range(40))]
    refused = 0
    for number, changed in enumerate(damaged):
        path.write_bytes(changed)
        run = tmp_path / f"run{number}"
        try:
            convert(source, "run", place, run)
        except (InputError, FileNotFoundError) as error:
            assert "\n" not in str(error)
            assert not run.exists()
            refused += 1
        else:
            np.testing.assert_equal(weights(run), expected)
    assert refused > 0.9 * len(damaged)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_data_that_is_missing(golden, tmp_path):
    folder = shutil.copytree(golden / "tf1" / "shared", tmp_path / "source")
    (folder / DATA).unlink()
    with pytest.raises(InputError, match=r"model\.ckpt-best\.index or its \.data file is damaged"):
        convert("google", "run", folder, tmp_path / "run")
