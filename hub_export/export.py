"""A run directory to the folders of its exported modules."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

from albert_tf.checkpoints import load, read_config, read_tokenizer, vocabulary_path
from albert_tf.config import AlbertConfig
from albert_tf.text import PieceTokenizer, Vocabulary
from hub_export.encoder import encoder_module
from hub_export.preprocessor import Preprocessor

ENCODER, PREPROCESSOR = "encoder", "preprocessor"

SHORTEST = 3  # [CLS], a token, [SEP]


def export(
    run: str | os.PathLike[str],
    output: str | os.PathLike[str],
    seq_length: int = 128,
    encoder_only: bool = False,
) -> list[Path]:
    """Writes `<output>/encoder` and `<output>/preprocessor`, replacing what has these names.

    Both are written whole before either appears under its name.

    Args:
      run: a run directory; its newest checkpoint is exported.
      output: folder of the modules; made where it does not exist.
      seq_length: the preprocessor's length where its caller names none, in tokens.
      encoder_only: whether to leave the preprocessor out; a run without a vocabulary needs it.
    Returns:
      The folders written.
    Raises:
      ValueError: the run is damaged or does not fit the arguments.
      OSError: a file cannot be read or written.
    """
    vocabulary = vocabulary_path(run)
    modules: dict[str, tf.train.Checkpoint] = {}
    if not encoder_only:
        modules[PREPROCESSOR] = _preprocessor(run, seq_length)
    modules[ENCODER] = encoder_module(load(run), vocabulary)
    output = Path(output)
    with _staging(output) as stage:
        for name, module in modules.items():
            _save(module, stage / name)
        for name in modules:
            _replace(stage / name, output / name)
    return [output / name for name in modules]


def _preprocessor(run: str | os.PathLike[str], seq_length: int) -> Preprocessor:
    """The preprocessor of a run, or a ValueError that says why it can have none."""
    config, path = read_config(run), vocabulary_path(run)
    if path is None:
        raise ValueError(f"{run} has no vocabulary: only its encoder can be exported (--encoder_only)")
    _check_seq_length(seq_length, config)
    vocabulary = Vocabulary.from_file(path)
    if len(vocabulary) > config.vocab_size:
        raise ValueError(
            f"{path} has {len(vocabulary)} pieces, but the model has vocab_size={config.vocab_size}"
        )
    return Preprocessor(PieceTokenizer(vocabulary, **read_tokenizer(run)), seq_length)


def _check_seq_length(seq_length: int, config: AlbertConfig) -> None:
    if seq_length < SHORTEST:
        raise ValueError(f"seq_length={seq_length} must be at least {SHORTEST}")
    if seq_length > config.max_position_embeddings:
        raise ValueError(
            f"seq_length={seq_length} is more than max_position_embeddings={config.max_position_embeddings}"
        )


def _save(module: tf.train.Checkpoint, folder: Path) -> None:
    try:
        tf.saved_model.save(module, str(folder))
    except tf.errors.OpError as error:
        raise OSError(f"cannot write {folder}: {error.message}") from error


@contextlib.contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """A hidden folder in `output`, which vanishes with all that is left in it."""
    output.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=".export-", dir=output))
    try:
        yield stage
    finally:
        shutil.rmtree(stage)


def _replace(new: Path, target: Path) -> None:
    """Gives a folder the name of another, which goes where the new one was: into the staging folder."""
    old = new.with_name(f"old-{new.name}")
    if target.exists():
        target.rename(old)
    new.rename(target)
