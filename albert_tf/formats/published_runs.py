"""Run directories of published checkpoints, converted once and kept."""

from __future__ import annotations

import os
import tempfile
import urllib.parse
from pathlib import Path

from absl import logging

from albert_tf.formats.conversion import convert
from albert_tf.formats.downloads import cache_folder
from albert_tf.formats.published import local_checkpoint, publisher_of


def published_run(name: str | os.PathLike[str], revision: str | None = None) -> Path:
    """The run directory at a path, or that of a published checkpoint, which is made once.

    It is kept in the cache, under ALBERT_TF_CACHE or ~/.cache/albert_tf; a repository's, by commit.

    Args:
      name: a path; or one of Google's archives ("albert_base_v2"), a repository of Hugging Face
        ("albert/albert-base-v2"), a handle of TF Hub ("https://…"). Whatever exists here is a path.
      revision: of a repository of Hugging Face: branch, tag or commit.
    Returns:
      The path itself, or that of the run.
    Raises:
      InputError: there is nothing of this name, it needs a token, or its weights do not fit its config.
      WorkFailed: it cannot be downloaded; the message says what to download and where to put it.
      OSError: a file cannot be written. As always when something is raised, no part of a run is left.
    """
    text = os.fspath(name)
    source = publisher_of(text)
    checkpoint = local_checkpoint(text, source or "run", revision)
    if source is None:
        return checkpoint.path
    run = cache_folder() / "runs" / source / urllib.parse.quote(text, safe="") / (checkpoint.commit or "run")
    if not run.exists():
        logging.info("converting %s to %s", text, run)
        run.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{run.name}.writing-", dir=run.parent) as scratch:
            made = Path(scratch) / "run"
            convert(source, "run", text, made, revision=revision)
            try:
                made.rename(run)
            except OSError:
                if not run.exists():  # else another process was faster
                    raise
    return run
