"""Opens the weights that a new model starts from: a run, a published checkpoint, a module of TF Hub.

Conversion and download are imported in functions, since a run should give its first prediction soon.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from absl import logging

from albert_tf.config import AlbertConfig, published_format
from albert_tf.errors import InputError
from albert_tf.filesystem import is_local, temporary_folder
from albert_tf.io import PathLike
from albert_tf.runs.build_model import check_vocabulary
from albert_tf.runs.run_directory import HUB, RunDirectory

# Raised if `convert` makes other runs of the same checkpoint: those in the cache are then made anew.
_CONVERSION = 1


class InitFrom(NamedTuple):
    """The network that a new model starts from."""

    config: AlbertConfig
    vocabulary: Path
    tokenizer: Mapping[str, bool]  # the entries of tokenizer.json
    run: RunDirectory | None  # the run with the weights; None: random weights


@contextlib.contextmanager
def open_init_from(
    origin: PathLike, vocabulary: PathLike | None = None, tokenizer: Mapping[str, bool] | None = None
) -> Iterator[InitFrom]:
    """Opens the network to start from, as a context. Temporary files are deleted at the end of the block.

    Args:
      origin: path of a run directory or of a folder of transformers, a published name, or "hub:" and the
        folder of a TF 2 encoder.
      vocabulary: path of a vocabulary, for a network without one.
      tokenizer: settings that the tokenizer must have. None: any settings.
    Raises:
      FileNotFoundError: the run or module does not exist.
      InputError: the network has no vocabulary and none is given, or its vocabulary is another one.
    """
    origin = os.fspath(origin)
    with contextlib.ExitStack() as stack:
        if origin.startswith(HUB):
            run = RunDirectory(Path(stack.enter_context(tempfile.TemporaryDirectory()), "run"))
            module = origin.removeprefix(HUB)
            _convert("hub", module, run, vocabulary=vocabulary, tokenizer=tokenizer)
        else:
            run = resolve_run(origin, vocabulary)
        file = run.resolve_vocabulary(vocabulary, tokenizer, origin)
        check_vocabulary(file, run.config.vocab_size)
        yield InitFrom(run.config, file, run.tokenizer_of(file), run)


def resolve_run(origin: PathLike, vocabulary: PathLike | None = None) -> RunDirectory:
    """The run directory at a path or for a published name.

    A published checkpoint is downloaded and converted once; its run stays in the cache. A folder of
    transformers is converted to a temporary run, which is deleted when the program ends. An error leaves no
    part of a run.

    Args:
      origin: path of a run directory on any filesystem, path of a local folder of transformers, or a
        published name. See `local_checkpoint` for published names.
      vocabulary: path of a vocabulary for a checkpoint whose own tokenizer cannot be converted.
    Raises:
      InputError: nothing has this name, or it cannot be converted.
      WorkFailed: a published checkpoint cannot be downloaded.
      OSError: a file cannot be read or written.
    """
    name, vocabulary = os.fspath(origin), None if vocabulary is None else os.fspath(vocabulary)
    source = published_format(name)
    if source is None:
        run_directory = RunDirectory(name, "init_from")
        if not (is_local(run_directory.path) and run_directory.is_hugging_face):
            return run_directory
        newest = max(path.lstat().st_mtime_ns for path in Path(run_directory.path).iterdir())
        return _convert_folder(run_directory.path, newest, vocabulary)
    from albert_tf.conversion.download import cache_folder, local_checkpoint

    checkpoint, commit = local_checkpoint(name, source)
    run = (
        cache_folder()
        / f"runs-{_CONVERSION}"
        / source
        / urllib.parse.quote(name, safe="")
        / (commit or "run")
    )
    if not run.exists():
        logging.info("converting %s to %s", name, run)
        run.parent.mkdir(parents=True, exist_ok=True)
        try:
            _convert(source, name, run)
        except OSError:
            if not run.exists():  # otherwise another process was faster
                raise
        except InputError:
            if vocabulary is None or source != "huggingface":
                raise
            return _convert_folder(str(checkpoint), 0, vocabulary)
    return RunDirectory(run)


def _convert(source: str, origin: str, run: PathLike, **options: Any) -> None:
    from albert_tf.conversion.convert import convert

    convert(source, "run", origin, run, **options)


@functools.cache
def _convert_folder(folder: str, newest: int, vocabulary: str | None) -> RunDirectory:
    """Converts a folder of transformers to a temporary run; again if `newest`, its last change, differs.

    `vocabulary` replaces the folder's if its tokenizer cannot be converted.
    """
    logging.info("converting %s", folder)
    run = Path(temporary_folder().name, f"converted-{uuid.uuid4().hex}")
    try:
        _convert("huggingface", folder, run)
    except InputError:
        if vocabulary is None:
            raise
        _convert("huggingface", folder, run, vocabulary=vocabulary)
    return RunDirectory(run)
