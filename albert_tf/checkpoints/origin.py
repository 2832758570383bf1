"""Entries of recipe.json about where a run's weights began."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints.directory import TASK, RunDirectory
from albert_tf.checkpoints.steps import checkpoint_prefix
from albert_tf.checkpoints.storage import PathLike, exists, join, read_bytes

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
    if name.startswith(HUB):
        index = join(name.removeprefix(HUB), "variables", "variables.index")
    else:
        step = RunDirectory(name).default_step() if exists(join(name, TASK)) else None
        index = f"{checkpoint_prefix(name, step)}.index"
    digest = hashlib.sha256(read_bytes(index)).hexdigest() if exists(index) else None
    return {"init_from": name, "init_from_sha256": digest}
