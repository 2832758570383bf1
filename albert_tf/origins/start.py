"""Where the weights of a new model begin: a run, a checkpoint by its published name, a module of TF Hub."""

from __future__ import annotations

import contextlib
import os
import tempfile
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from absl import logging

from albert_tf.checkpoints.run import (
    VOCABULARY,
    check_run_vocabulary,
    read_config,
    read_task,
    read_tokenizer,
    vocabulary_path,
)
from albert_tf.checkpoints.vocabulary import check_vocabulary
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, Missing
from albert_tf.formats.conversion import convert
from albert_tf.formats.downloads import cache_folder
from albert_tf.formats.published import local_checkpoint, publisher_of
from albert_tf.origins.record import HUB

PathLike = str | os.PathLike[str]


class Start(NamedTuple):
    """What a model begins with.

    Attributes:
      config: the network.
      vocabulary: its SentencePiece model.
      tokenizer: as tokenizer.json says it.
      run: directory that the weights are in; None: they are random.
    """

    config: AlbertConfig
    vocabulary: Path
    tokenizer: Mapping[str, bool]
    run: Path | None


@contextlib.contextmanager
def opened(
    origin: PathLike, vocabulary: PathLike | None = None, tokenizer: Mapping[str, bool] | None = None
) -> Iterator[Start]:
    """What is to be begun with; it is there as long as the block runs.

    Args:
      origin: a run directory, what `published_run` knows, or "hub:" and the folder of a TF 2 encoder.
      vocabulary: SentencePiece model, where it comes without one.
      tokenizer: what it must have been trained with, as far as somebody says.
    Raises:
      FileNotFoundError: there is no such run or module.
      InputError: it has no vocabulary and none is named, or another one is.
    """
    origin = os.fspath(origin)
    if not origin.startswith(HUB):
        yield start_of_run(published_run(origin), vocabulary, tokenizer, origin)
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        convert("hub", "run", origin.removeprefix(HUB), run, vocabulary=vocabulary, tokenizer=tokenizer)
        yield start_of_run(run, vocabulary, tokenizer, origin)


def start_of_run(
    run: PathLike,
    vocabulary: PathLike | None = None,
    tokenizer: Mapping[str, bool] | None = None,
    origin: str | None = None,
) -> Start:
    """The network of a run directory, its vocabulary, and its weights.

    Args:
      run: the directory.
      vocabulary: as in `opened`.
      tokenizer: as in `opened`.
      origin: what errors call it.
    Raises: as `opened` does.
    """
    origin = origin or os.fspath(run)
    read_task(run)  # which says what the folder is instead: other checkpoints have files of the other names
    config, there = read_config(run), read_tokenizer(run)
    own = vocabulary_path(run)
    if vocabulary is not None:
        if not Path(vocabulary).is_file():
            raise Missing(f"{vocabulary} is not a file: the vocabulary is missing")
        if own is not None and own.read_bytes() != Path(vocabulary).read_bytes():
            raise InputError(f"{vocabulary} is not the vocabulary of {origin}: leave --vocabulary out")
        check_run_vocabulary(run, vocabulary)
        check_vocabulary(vocabulary, config.vocab_size)
    found = own if vocabulary is None else Path(vocabulary)
    if found is None:
        raise InputError(f"{origin} has no {VOCABULARY}: name its vocabulary by --vocabulary")
    differing = {name: value for name, value in (tokenizer or {}).items() if there[name] != value}
    if differing:
        raise InputError(f"{origin} was trained with {there}, not with {differing}: leave that out")
    return Start(config, found, there, Path(run))


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
        try:
            convert(source, "run", text, run, revision=revision)
        except OSError:
            if not run.exists():  # else another process was faster
                raise
    return run
