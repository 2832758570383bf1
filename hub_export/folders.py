"""The folder that an export writes into: what may stand there already, and how new names appear."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from albert_tf.utils.files import restore_folder, scratch, writing


def version_exists(folder: Path) -> FileExistsError:
    """The error of a version of the serving model whose name is taken."""
    return FileExistsError(f"{folder} exists already: a server may hold it; choose another --version")


@contextlib.contextmanager
def staging(output: Path) -> Iterator[Path]:
    """A hidden folder in `output`, which vanishes with all that is left in it."""
    output.mkdir(parents=True, exist_ok=True)
    with scratch(output / "export") as stage, writing(output, stage):
        stage.mkdir()
        yield stage


def check_replaceable(target: Path) -> None:
    """FileExistsError if there is something that no export has written.

    What an export that was killed has left under another name gets its own back.
    """
    restore_folder(target)
    if target.exists() and not (target / "saved_model.pb").exists():
        raise FileExistsError(f"{target} is not an exported module: name another --output")


def add(new: Path, target: Path) -> None:
    """Gives a folder a name that no other has."""
    target.parent.mkdir(exist_ok=True)
    try:
        new.rename(target)
    except OSError as error:
        if os.path.lexists(target):
            raise version_exists(target) from error
        raise
