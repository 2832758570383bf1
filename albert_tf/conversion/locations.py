"""The files of a published checkpoint by their usual names, in a folder, an archive, or one by one."""

from __future__ import annotations

import contextlib
import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from albert_tf.utils.errors import InputError

# What the vocabulary is called beside published checkpoints; of byte-level BPE, the first of its files.
VOCABULARIES = ("30k-clean.model", "spiece.model", "vocab.txt", "vocab.json")


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A folder with the content of an archive while the block lasts, or the path itself.

    A folder in a folder that holds nothing else is taken for it.

    Args:
      path: a .tar.gz, .tgz or .tar file, or anything else.
    Raises:
      InputError: the archive is damaged.
      OSError: it does not exist, or cannot be read.
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
            if isinstance(error.__cause__, OSError) and error.__cause__.errno is not None:
                raise error.__cause__ from None  # of an archive that may be sound
            raise InputError(f"{path} is not an archive, or damaged: {error}") from error
        yield _inner(Path(folder))


def _inner(path: Path) -> Path:
    entries = files_in(path, "*") if path.is_dir() else []
    return _inner(entries[0]) if len(entries) == 1 and entries[0].is_dir() else path


def only(folder: Path, *patterns: str) -> Path:
    """The one file of a folder that has such a name; an error where there are none or several."""
    names, found = " or ".join(patterns), files_in(folder, *patterns)
    if not found:
        raise FileNotFoundError(f"{folder} holds no {names}: no checkpoint can be read there")
    if len(found) > 1:
        several = ", ".join(path.name for path in found)
        raise InputError(f"{folder} holds several {names}: name one of {several}")
    return found[0]


def files_in(folder: Path, *patterns: str) -> list[Path]:
    """The files and folders of a folder that have such a name and are not hidden, in order."""
    found = {file for pattern in patterns for file in folder.glob(pattern)}
    return sorted(file for file in found if not file.name.startswith("."))


def find_vocabulary(folder: Path) -> Path | None:
    """The vocabulary of a checkpoint, beside it or among its assets; None where there is none."""
    places = [place / name for place in (folder, folder / "assets") for name in VOCABULARIES]
    return next((path for path in [*places, *files_in(folder / "assets", "*.model")] if path.is_file()), None)
