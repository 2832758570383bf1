"""Starts of the weights of a new model: a run, a published checkpoint, a module of TF Hub.

Conversion and download are imported where they are needed: a first answer of a run should not wait for them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from albert_tf.config import AlbertConfig, publisher_of
from albert_tf.filesystem import is_local
from albert_tf.io import PathLike
from albert_tf.runs.build_model import check_vocabulary
from albert_tf.runs.run_directory import HUB, RunDirectory


class InitFrom(NamedTuple):
    """The network that a model begins with."""

    config: AlbertConfig
    vocabulary: Path
    tokenizer: Mapping[str, bool]  # the entries of tokenizer.json
    run: RunDirectory | None  # that the weights are in; None: they are random


@contextlib.contextmanager
def open_init_from(
    origin: PathLike, vocabulary: PathLike | None = None, tokenizer: Mapping[str, bool] | None = None
) -> Iterator[InitFrom]:
    """The network to begin with, which is there as long as the block runs.

    Args:
      origin: what `resolve_run` takes, or "hub:" and the folder of a TF 2 encoder.
      vocabulary: SentencePiece model, where it comes without one.
      tokenizer: settings that it must have been trained with, as far as somebody says.
    Raises:
      FileNotFoundError: there is no such run or module.
      InputError: it has no vocabulary and none is named, or another one is.
    """
    origin = os.fspath(origin)
    with contextlib.ExitStack() as stack:
        if origin.startswith(HUB):
            run = RunDirectory(Path(stack.enter_context(tempfile.TemporaryDirectory()), "run"))
            module = origin.removeprefix(HUB)
            _convert("hub", module, run, vocabulary=vocabulary, tokenizer=tokenizer)
        else:
            run = resolve_run(origin)
        found = run.vocabulary_for(vocabulary, tokenizer, origin)
        check_vocabulary(found, run.config.vocab_size)
        yield InitFrom(run.config, found, run.tokenizer, run)


def resolve_run(origin: PathLike) -> RunDirectory:
    """The run directory at a path of any filesystem, or that of a published checkpoint, which is made once.

    It is kept in the cache, a repository's by commit. No part of a run is left if something is raised. What
    is made of a folder of transformers is there as long as the program runs.

    Args and Raises: as `local_checkpoint`.
    """
    name = os.fspath(origin)
    source = publisher_of(name)
    if source is None:
        there = RunDirectory(name, "init_from")
        if not (is_local(there.path) and there.is_hugging_face):
            return there
        newest = max(path.stat().st_mtime_ns for path in Path(there.path).iterdir())
        return RunDirectory(Path(_converted(there.path, newest).name, "run"))
    from albert_tf.conversion.download import cache_folder, local_checkpoint

    _, commit = local_checkpoint(name, source)
    run = cache_folder() / "runs" / source / urllib.parse.quote(name, safe="") / (commit or "run")
    if not run.exists():
        logging.info("converting %s to %s", name, run)
        run.parent.mkdir(parents=True, exist_ok=True)
        try:
            _convert(source, name, run)
        except OSError:
            if not run.exists():  # else another process was faster
                raise
    return RunDirectory(run)


def _convert(source: str, origin: str, run: PathLike, **options: Any) -> None:
    from albert_tf.conversion.convert import convert

    convert(source, "run", origin, run, **options)


@functools.cache
def _converted(folder: str, newest: int) -> tempfile.TemporaryDirectory[str]:
    """A folder with the run of a folder of transformers, whose newest file is of this time."""
    logging.info("converting %s", folder)
    place = tempfile.TemporaryDirectory()
    _convert("huggingface", folder, Path(place.name, "run"))
    return place
