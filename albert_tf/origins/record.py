"""What recipe.json says of where weights began."""

from __future__ import annotations

import os
from pathlib import Path

from albert_tf.checkpoints.run import RECIPE, TASK, default_step
from albert_tf.checkpoints.steps import checkpoint_prefix
from albert_tf.checkpoints.vocabulary import fingerprint
from albert_tf.files import read_json

PathLike = str | os.PathLike[str]

HUB = "hub:"  # what the name of an exported or published TF 2 encoder begins with


def origin_record(run: PathLike, origin: PathLike | None) -> dict[str, str | None]:
    """What recipe.json says of what a run begins with: `init_from` and `init_from_sha256`.

    The latter is of the index of a checkpoint, which holds a checksum of each variable; None where weights
    are random or go by a published name. Of a run that has begun with the same path it is as recorded there:
    what lies at that path may have been trained further since, or be gone.

    Args:
      run: the run directory, which may be there already.
      origin: as in `opened`; None: random weights.
    """
    if origin is None:
        return {"init_from": None, "init_from_sha256": None}
    name, recipe = os.fspath(origin), Path(run) / RECIPE
    begun = read_json(recipe) if recipe.exists() else {}
    if begun.get("init_from") == name:
        return {"init_from": name, "init_from_sha256": begun.get("init_from_sha256")}
    index = _checkpoint_index(name)
    digest = None if index is None or not index.is_file() else fingerprint(index)
    return {"init_from": name, "init_from_sha256": digest}


def _checkpoint_index(origin: str) -> Path | None:
    """Where the index of the checkpoint is that `opened` would read; None where it has none."""
    if origin.startswith(HUB):
        return Path(origin.removeprefix(HUB)) / "variables" / "variables.index"
    step = default_step(origin) if (Path(origin) / TASK).exists() else None
    return None if step is None else Path(f"{checkpoint_prefix(origin, step)}.index")
