"""Published checkpoints by name: from a name or path to what lies on this machine."""

from __future__ import annotations

import os
import re
import urllib.parse
from pathlib import Path

from albert_tf.config import PRESETS
from albert_tf.conversion.downloads import download, repository
from albert_tf.utils.errors import InputError

# google-research/albert's archives, and where they are.
ARCHIVES = tuple(name for name in PRESETS if name.startswith("albert_"))
_ARCHIVES_AT = "https://storage.googleapis.com/albert_models/"

_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]*\w", re.ASCII)


def cache_folder() -> Path:
    """The folder of downloaded and converted files: ALBERT_TF_CACHE, or ~/.cache/albert_tf."""
    return Path(os.environ.get("ALBERT_TF_CACHE") or "~/.cache/albert_tf").expanduser().absolute()


def publisher_of(name: str) -> str | None:
    """The format of a published name; None for a path.

    Raises:
      InputError: it is a single word that does not exist here, and not the name of anything published.
    """
    if Path(name).exists():
        return None
    if name in ARCHIVES:
        return "google"
    if name.startswith(("http://", "https://")):
        return "hub"
    if _REPOSITORY.fullmatch(name):
        return "huggingface"
    if not {"/", "."} & set(name):
        raise InputError(
            f"{name} is neither a path here nor a published name: {', '.join(ARCHIVES)}; OWNER/NAME of "
            "Hugging Face, such as albert/albert-base-v2; an address of TF Hub, https://…"
        )
    return None


def local_checkpoint(
    name: str | os.PathLike[str], source: str, revision: str | None = None
) -> tuple[Path, str | None]:
    """A checkpoint by its path or its published name, which is downloaded unless it is here already.

    Whatever exists here is a path.

    Args:
      name: a path; or one of Google's archives ("albert_base_v2"), a repository of Hugging Face
        ("albert/albert-base-v2"), a handle of TF Hub ("https://…").
      source: the format: "google", "huggingface", "hub" or "run".
      revision: of a repository of Hugging Face: branch, tag or commit.
    Returns:
      A folder, an archive, or the file with the weights; and the commit of a repository.
    Raises:
      InputError: there is nothing of this name, it needs a token, or has no revisions.
      WorkFailed: it cannot be downloaded; the message says what to download and where to put it.
      OSError: a file cannot be written.
    """
    text = os.fspath(name)
    is_name = publisher_of(text) == source
    if is_name and source == "huggingface":
        folder = repository(text, revision)
        return folder, folder.name
    if revision is not None:
        raise InputError(f"revision={revision} is of a repository of Hugging Face, which {text} is not")
    if not is_name:
        return Path(text), None
    # A module not by tensorflow_hub, which waits for a silent server for ever.
    address = f"{_ARCHIVES_AT}{text}.tar.gz" if source == "google" else f"{text}?tf-hub-format=compressed"
    path = cache_folder() / source / f"{urllib.parse.quote(text, safe='')}.tar.gz"
    if not path.exists():
        download(address, path)
    return path, None
