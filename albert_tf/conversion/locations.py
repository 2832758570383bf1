"""The files of a published checkpoint by their usual names, in a folder, an archive, or one by one."""

from __future__ import annotations

import contextlib
import gzip
import re
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from albert_tf.utils.errors import InputError

# What the vocabulary is called beside published checkpoints.
VOCABULARIES = ("30k-clean.model", "spiece.model")

_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A folder with the content of an archive while the block lasts, or the path itself.

    A folder in a folder that holds nothing else is taken for it.

    Args:
      path: a .tar.gz, .tgz or .tar file, or anything else.
    Yields:
      A folder, or the path itself where it is not an archive.
    Raises:
      FileNotFoundError: the archive does not exist.
      ValueError: the archive is damaged.
    """
    if not path.name.endswith((".tar.gz", ".tgz", ".tar")):
        yield _inner(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(path, "r:" if path.suffix == ".tar" else "r:gz") as archive:
                # "data" refuses links, devices and paths that lead out of the folder.
                archive.extractall(folder, filter="data")
                # The checksum of a .gz is at its very end.
                while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                    pass
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
            raise InputError(f"{path} is not an archive, or damaged: {error}") from error
        yield _inner(Path(folder))


def _inner(path: Path) -> Path:
    while path.is_dir():
        entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
        if len(entries) != 1 or not entries[0].is_dir():
            break
        path = entries[0]
    return path


def only(folder: Path, *patterns: str) -> Path:
    """The one file of a folder that has such a name; an error where there are none or several."""
    names = " or ".join(patterns)
    found = sorted({file for file in _matches(folder, *patterns) if file.is_file()})
    if not found:
        raise FileNotFoundError(f"{folder} holds no {names}: no checkpoint can be read there")
    if len(found) > 1:
        several = ", ".join(path.name for path in found)
        raise InputError(f"{folder} holds several {names}: name one of {several}")
    return found[0]


def _matches(folder: Path, *patterns: str) -> list[Path]:
    found = [file for pattern in patterns for file in folder.glob(pattern)]
    return [file for file in found if not file.name.startswith(".")]


def find_vocabulary(folder: Path) -> Path | None:
    """The SentencePiece model of a checkpoint, beside it or among its assets; None where there is none."""
    places = [place / name for place in (folder, folder / "assets") for name in VOCABULARIES]
    assets = sorted((folder / "assets").glob("*.model"))
    return next((path for path in [*places, *assets] if path.is_file()), None)


def google_files(path: Path) -> tuple[Path, Path]:
    """The prefix of a TF1 checkpoint, and the folder that it was published in.

    Args:
      path: the folder, or the checkpoint with or without `.index` or `.data-…`.
    """
    if path.is_dir():
        return only(path, "*.index", "variables/*.index").with_suffix(""), path
    return path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", path.name)), path.parent


def safetensors_file(path: Path) -> tuple[Path, Path]:
    """The safetensors file, or the index of several, and the folder that it is in.

    Args:
      path: the folder or the file.
    Raises:
      FileNotFoundError: there is none.
      ValueError: there are only pickles, or several files without an index.
    """
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        path = _weights(path)
    if path.suffix in _PICKLES:
        raise InputError(
            f"{path} is a pickle: opening it runs whatever code it holds, so it is not read. Where you trust "
            f"it, let transformers write model.safetensors: from_pretrained(…).save_pretrained(…)"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: no checkpoint there")
    return path, folder


def _weights(folder: Path) -> Path:
    for name in ("model.safetensors", "model.safetensors.index.json"):
        if (folder / name).exists():
            return folder / name
    if not _matches(folder, "*.safetensors"):
        for pickle in sorted(_matches(folder, *(f"*{suffix}" for suffix in _PICKLES))):
            return pickle
    return only(folder, "*.safetensors")
