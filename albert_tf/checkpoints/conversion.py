"""`convert`: checkpoints of other implementations to run directories."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from albert_tf.checkpoints.google import read_google
from albert_tf.checkpoints.run import save
from albert_tf.checkpoints.steps import PathLike
from albert_tf.config import AlbertConfig

# What the vocabulary is called beside published checkpoints.
VOCABULARIES = ("30k-clean.model", "spiece.model")


class Conversion(NamedTuple):
    """What a conversion left out and made up, by name."""

    unread: list[str]  # tensors of the source that nothing here needs
    fresh: list[str]  # variables that the source did not have, initialised at random


class Found(NamedTuple):
    """A checkpoint of another implementation, and the vocabulary beside it."""

    model: Any
    unread: list[str]
    fresh: list[str]
    vocabulary: Path | None


def convert(
    source: str,
    target: str,
    input: PathLike,
    output: PathLike,
    vocabulary: PathLike | None = None,
    partial: bool = False,
) -> Conversion:
    """Writes a checkpoint of one format in another; nothing is written where it fails.

    Args:
      source: "google".
      target: "run".
      input: the folder that the checkpoint was published in, or its path without `.index`.
      output: the run directory to make.
      vocabulary: SentencePiece model; None takes the one beside the checkpoint, if there is one.
      partial: whether to take the encoder only.
    Returns:
      What was left out and made up.
    Raises:
      FileNotFoundError: the checkpoint, its config or the vocabulary is missing.
      FileExistsError: there is something at `output`.
      ValueError: there is no such conversion, or the checkpoint does not fit its config.
    """
    if source not in READERS or target != "run":
        known = ", ".join(f"{name} to run" for name in READERS)
        raise ValueError(f"no conversion from {source} to {target}: there are {known}")
    # Also found when it comes to writing, but reading a large checkpoint takes a while.
    if Path(output).exists():
        raise FileExistsError(f"{output} exists already: name another place, or remove it")
    if vocabulary is not None and not Path(vocabulary).is_file():
        raise FileNotFoundError(f"{vocabulary} is no file: the vocabulary is missing")
    found = READERS[source](Path(input), partial)
    recipe = {
        "converted_from": source,
        "input": str(input),
        "unread": found.unread,
        "fresh": found.fresh,
        "versions": {name: metadata.version(name) for name in ("tensorflow", "tf_keras", "numpy")},
        "command_line": sys.argv,
    }
    save(found.model, output, vocabulary=vocabulary or found.vocabulary, recipe=recipe)
    return Conversion(found.unread, found.fresh)


def _from_google(path: Path, partial: bool) -> Found:
    if path.is_dir():
        folder, prefix = path, _only(path, "*.index").with_suffix("")
    else:
        folder, prefix = path.parent, path
    config = AlbertConfig.from_json_file(_only(folder, "albert_config*.json"))
    model, unread, fresh = read_google(prefix, config, partial)
    beside = [folder / name for name in VOCABULARIES if (folder / name).exists()]
    return Found(model, unread, fresh, beside[0] if beside else None)


def _only(folder: Path, pattern: str) -> Path:
    """The one file of a folder that has such a name; an error where there are none or several."""
    found = sorted(folder.glob(pattern))
    if not found:
        raise FileNotFoundError(f"{folder} holds no {pattern}: no checkpoint can be read there")
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise ValueError(f"{folder} holds several {pattern}: leave one of {names}")
    return found[0]


READERS: dict[str, Callable[[Path, bool], Found]] = {"google": _from_google}
