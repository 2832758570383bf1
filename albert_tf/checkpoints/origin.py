"""Entries of recipe.json about where a run's weights began."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.checkpoints.directory import TASK, RunDirectory
from albert_tf.checkpoints.steps import checkpoint_prefix
from albert_tf.checkpoints.storage import exists, fingerprint, join

PathLike = str | os.PathLike[str]

HUB = "hub:"  # prefix of the folder of an exported or published TF 2 encoder


def origin_record(begun: Mapping[str, Any], origin: PathLike | None) -> dict[str, str | None]:
    """The entries `init_from` and `init_from_sha256`.

    The latter is of the index of a checkpoint, which holds a checksum of each variable; None where weights
    are random or go by a published name. A run that has begun with the same path keeps what it recorded: the
    checkpoint at that path may have been trained further since, or be gone.

    Args:
      begun: recipe.json of the run; empty for a new one.
      origin: a run, a published name, or "hub:" and a folder; None: random weights.
    """
    if origin is None:
        return {"init_from": None, "init_from_sha256": None}
    name = os.fspath(origin)
    if begun.get("init_from") == name:
        return {"init_from": name, "init_from_sha256": begun.get("init_from_sha256")}
    index = _checkpoint_index(name)
    digest = None if index is None or not exists(index) else fingerprint(index)
    return {"init_from": name, "init_from_sha256": digest}


def _checkpoint_index(origin: str) -> str | None:
    if origin.startswith(HUB):
        return str(Path(origin.removeprefix(HUB)) / "variables" / "variables.index")
    step = RunDirectory(origin).default_step() if exists(join(origin, TASK)) else None
    return None if step is None else f"{checkpoint_prefix(origin, step)}.index"
