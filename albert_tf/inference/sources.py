"""Sources of models that users name: a run, by its directory or a published name, or an export."""

from __future__ import annotations

import os
from pathlib import Path

from albert_tf.checkpoints.directory import CONFIG, TASK, best_run, other_kind
from albert_tf.conversion import start as starts
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import checked_path

PathLike = str | os.PathLike[str]

_SAVED_MODEL = "saved_model.pb"


def run_directory(source: PathLike, argument: str, otherwise: str = "") -> Path:
    """The run directory that somebody names.

    Args:
      source: the directory, or a published name, see `published_run`.
      argument: what the caller calls it, for the error.
      otherwise: what else it might have been, for the error, from "nor" on.
    Raises:
      InputError: there is no such run.
      WorkFailed: what is published cannot be downloaded.
    """
    checked_path(source, argument)
    named = f"{argument}={os.fspath(source)!r}"
    try:
        folder = starts.published_run(source)
    except InputError as error:
        raise InputError(f"{named}: {error}") from error
    if folder.is_dir():
        folder = Path(best_run(folder).path)
    elif not folder.exists():
        raise InputError(f"{named}: there is no such folder or file")
    if not all((folder / name).is_file() for name in (CONFIG, TASK)):
        kind = other_kind(folder) or f": that has {CONFIG} and {TASK}"
        lacking = f"{named} is not a run directory{kind}"
        raise InputError(f"{lacking}; {otherwise}" if otherwise else lacking)
    return folder


def serving_folder(source: PathLike) -> Path | None:
    """The folder of a SavedModel: the one named, or the newest version of the one in it, or None."""
    folder = Path(source)
    if (folder / _SAVED_MODEL).is_file():
        return folder
    found = [*folder.glob(f"*/{_SAVED_MODEL}"), *folder.glob(f"serving/*/{_SAVED_MODEL}")]
    versions = [path.parent for path in found if path.parent.name.isdecimal()]
    return max(versions, key=lambda path: int(path.name), default=None)


def is_keras_model(source: PathLike) -> bool:
    """True if this is what Keras has saved, as a file or as a folder."""
    path = Path(source)
    return (path.suffix == ".keras" and path.is_file()) or (path / "keras_metadata.pb").is_file()
