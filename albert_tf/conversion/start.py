"""Starts of the weights of a new model: a run, a published checkpoint, a module of TF Hub."""

from __future__ import annotations

import contextlib
import os
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from absl import logging

from albert_tf.checkpoints.directory import CONFIG, RunDirectory
from albert_tf.checkpoints.origin import HUB
from albert_tf.checkpoints.run import opened_run
from albert_tf.checkpoints.storage import exists, join
from albert_tf.checkpoints.vocabulary import check_vocabulary
from albert_tf.config import AlbertConfig
from albert_tf.conversion.convert import convert
from albert_tf.conversion.downloads import cache_folder
from albert_tf.conversion.published import local_checkpoint, publisher_of
from albert_tf.tokenizer_settings import vocabulary_files
from albert_tf.utils.errors import InputError, Missing

PathLike = str | os.PathLike[str]


class Start(NamedTuple):
    """The network that a model begins with."""

    config: AlbertConfig
    vocabulary: Path
    tokenizer: Mapping[str, bool]  # the entries of tokenizer.json
    run: RunDirectory | None  # that the weights are in; None: they are random


@contextlib.contextmanager
def opened(
    origin: PathLike, vocabulary: PathLike | None = None, tokenizer: Mapping[str, bool] | None = None
) -> Iterator[Start]:
    """The network to begin with, which is there as long as the block runs.

    Args:
      origin: a run directory, what `published_run` knows, or "hub:" and the folder of a TF 2 encoder.
      vocabulary: SentencePiece model, where it comes without one.
      tokenizer: settings that it must have been trained with, as far as somebody says.
    Raises:
      FileNotFoundError: there is no such run or module.
      InputError: it has no vocabulary and none is named, or another one is.
    """
    origin = os.fspath(origin)
    if not origin.startswith(HUB):
        yield start_of_run(run_at(origin), vocabulary, tokenizer, origin)
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        convert("hub", "run", origin.removeprefix(HUB), run, vocabulary=vocabulary, tokenizer=tokenizer)
        yield start_of_run(run, vocabulary, tokenizer, origin)


def start_of_run(
    path: PathLike,
    vocabulary: PathLike | None = None,
    tokenizer: Mapping[str, bool] | None = None,
    origin: str | None = None,
) -> Start:
    """The network of a run directory, its vocabulary, and its weights.

    Args and Raises: as `opened`; `origin` is what errors call the directory.
    """
    run, origin = opened_run(path), origin or os.fspath(path)
    _ = run.task  # which says what the folder is instead: other checkpoints have files of the other names
    own = run.vocabulary
    if vocabulary is not None:
        if not Path(vocabulary).exists():
            raise Missing(f"{vocabulary} is not there: the vocabulary is missing")
        if own is not None and _contents(own) != _contents(vocabulary):
            raise InputError(f"{vocabulary} is not the vocabulary of {origin}: name {own}")
        run.check_vocabulary(vocabulary)
        check_vocabulary(vocabulary, run.config.vocab_size)
    found = own if vocabulary is None else Path(vocabulary)
    if found is None:
        raise InputError(f"{origin} has no vocabulary: name it by --vocabulary")
    there = run.tokenizer
    differing = {name: value for name, value in (tokenizer or {}).items() if there[name] != value}
    if differing:
        raise InputError(f"{origin} was trained with {there}, not with {differing}: leave that out")
    return Start(run.config, found, there, run)


def _contents(vocabulary: PathLike) -> dict[str, bytes]:
    return {name: file.read_bytes() for name, file in vocabulary_files(vocabulary).items()}


def run_at(origin: PathLike) -> RunDirectory:
    """The run directory at a path of any filesystem, or that of a published checkpoint."""
    is_there = exists(join(origin, CONFIG))
    return RunDirectory(origin if is_there else published_run(origin), "init_from")


def published_run(name: PathLike, revision: str | None = None) -> Path:
    """The run directory at a path, or that of a published checkpoint, which is made once.

    It is kept in the cache, a repository's by commit. No part of a run is left where something is raised.

    Args and Raises: as `local_checkpoint`.
    """
    text = os.fspath(name)
    source = publisher_of(text)
    path, commit = local_checkpoint(text, source or "run", revision)
    if source is None:
        return path
    run = cache_folder() / "runs" / source / urllib.parse.quote(text, safe="") / (commit or "run")
    if not run.exists():
        logging.info("converting %s to %s", text, run)
        run.parent.mkdir(parents=True, exist_ok=True)
        try:
            convert(source, "run", text, run, revision=revision)
        except OSError:
            if not run.exists():  # else another process was faster
                raise
    return run
