"""Published checkpoints by name: one function from a name or path to what lies on this machine."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from albert_tf.config import PRESETS
from albert_tf.conversion.downloads import cache_folder, download
from albert_tf.conversion.repository import is_repository, repository
from albert_tf.utils.errors import InputError

# google-research/albert's archives, and where they are.
ARCHIVES = tuple(name for name in PRESETS if name.startswith("albert_"))
_ARCHIVES_AT = "https://storage.googleapis.com/albert_models/"


class Checkpoint(NamedTuple):
    """A checkpoint on this machine."""

    path: Path  # of a folder, an archive, or the file with the weights
    commit: str | None = None  # of a repository of Hugging Face


class Publisher(NamedTuple):
    """A place where checkpoints of a format are published."""

    names: str  # how names look, for errors
    is_name: Callable[[str], bool]
    fetch: Callable[[str, str | None], Checkpoint]  # by name and revision


def local_checkpoint(name: str | os.PathLike[str], source: str, revision: str | None = None) -> Checkpoint:
    """A checkpoint by its path or its published name, which is downloaded unless it is here already.

    Whatever exists here is a path.

    Args:
      name: a path; or one of Google's archives ("albert_base_v2"), a repository of Hugging Face
        ("albert/albert-base-v2"), a handle of TF Hub ("https://…").
      source: the format, one of PUBLISHERS, or another that is not published.
      revision: of a repository of Hugging Face: branch, tag or commit.
    Raises:
      InputError: there is nothing of this name, it needs a token, or has no revisions.
      WorkFailed: it cannot be downloaded; the message says what to download and where to put it.
      OSError: a file cannot be written.
    """
    text = os.fspath(name)
    is_name = publisher_of(text, [source] if source in PUBLISHERS else []) is not None
    if revision is not None and not (is_name and source == "huggingface"):
        raise InputError(f"revision={revision} is of a repository of Hugging Face, which {text} is not")
    return PUBLISHERS[source].fetch(text, revision) if is_name else Checkpoint(Path(text))


def publisher_of(name: str, among: Collection[str] | None = None) -> str | None:
    """The format of a published name; None for a path.

    Args:
      name: a name or path.
      among: the formats; None: all of PUBLISHERS.
    Raises:
      InputError: it is a single word that does not exist here, and not the name of anything published.
    """
    if Path(name).exists():
        return None
    among = PUBLISHERS if among is None else among
    found = next((source for source in among if PUBLISHERS[source].is_name(name)), None)
    is_word = not {"/", "."} & set(name)
    if found is None and is_word and among:
        names = "; ".join(PUBLISHERS[source].names for source in among)
        raise InputError(f"{name} is neither a path here nor a published name: {names}")
    return found


def _archive(name: str) -> Path:
    """One of ARCHIVES, in the cache."""
    path = cache_folder() / "google" / f"{name}.tar.gz"
    if not path.exists():
        download(f"{_ARCHIVES_AT}{path.name}", path)
    return path


def _module(handle: str) -> Path:
    """A module of TF Hub as an archive, in the cache.

    Not by tensorflow_hub, which waits for a silent server for ever.
    """
    path = cache_folder() / "hub" / f"{urllib.parse.quote(handle, safe='')}.tar.gz"
    if not path.exists():
        download(f"{handle}?tf-hub-format=compressed", path)
    return path


def _repository(name: str, revision: str | None) -> Checkpoint:
    folder = repository(name, revision)
    return Checkpoint(folder, commit=folder.name)


PUBLISHERS = {
    "google": Publisher(
        ", ".join(ARCHIVES), ARCHIVES.__contains__, lambda name, revision: Checkpoint(_archive(name))
    ),
    "huggingface": Publisher(
        "OWNER/NAME of Hugging Face, such as albert/albert-base-v2", is_repository, _repository
    ),
    "hub": Publisher(
        "an address of TF Hub, https://…",
        lambda name: name.startswith(("http://", "https://")),
        lambda name, revision: Checkpoint(_module(name)),
    ),
}
