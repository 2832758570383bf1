"""Exported models as converters want them: one signature, from token ids."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def from_ids(module: str) -> Iterator[str]:
    """Folder of a SavedModel whose `serving_default` is from token ids.

    An exported encoder is one. A fine-tuned serving model also has signatures from text, whose ops no other
    runtime has: its signature `head` is written alone, into a folder that is there until the context ends.
    """
    if not (Path(module) / "assets/task.json").exists():
        yield module
        return
    if importlib.util.find_spec("tensorflow_text") is None:
        sys.exit(f"{module} is fine-tuned and has ops of TF Text: pip install tensorflow-text")
    import tensorflow as tf  # which who has the converted file does not need
    import tensorflow_text  # noqa: F401  the ops of the other signatures

    loaded, alone = tf.saved_model.load(module), tf.Module()
    alone.held = loaded.variables
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(alone, folder, signatures=loaded.signatures["head"])
        yield folder
