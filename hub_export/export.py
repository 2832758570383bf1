"""A run directory to the folders of its exported modules."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints import load, read_config, read_task, read_tokenizer, vocabulary_path
from albert_tf.checkpoints.run import CONFIG, check_finite
from albert_tf.checkpoints.vocabulary import check_vocabulary
from albert_tf.config import GOOGLE_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import check_place, unfinished, writing
from albert_tf.text import PieceTokenizer, Vocabulary
from albert_tf.tokenizer_settings import TOKENIZER
from hub_export.answers import (
    Answers,
    CheckFailed,
    call_answers,
    example_ids,
    signature_answers,
    write_expected,
)
from hub_export.encoder import encoder_module
from hub_export.module import Module
from hub_export.precision import in_dtype
from hub_export.preprocessor import Preprocessor
from hub_export.serving import Served, serving_signatures
from hub_export.serving.signature import DEFAULT
from hub_export.serving.tokens import ids_signature
from hub_export.warmup import write_requests

ENCODER, PREPROCESSOR, SERVING = "encoder", "preprocessor", "serving"

# Files of a run, and what they are called among the assets: the config as in Google's TF 1 modules.
DESCRIPTION = {CONFIG: GOOGLE_FILE, TOKENIZER: TOKENIZER}

SEQ_LENGTH = 128  # where neither caller nor run says
SHORTEST = 3  # [CLS], a token, [SEP]
NEWEST = 2**63 - 1  # TF Serving counts versions in int64


def export(
    run: str | os.PathLike[str],
    output: str | os.PathLike[str],
    seq_length: int | None = None,
    encoder_only: bool = False,
    version: int = 1,
    dtype: str = "float32",
    check: bool = True,
    step: int | None = None,
) -> list[Path]:
    """Writes `<output>/preprocessor`, `<output>/encoder` and `<output>/serving/<version>`.

    All are written whole before any appears under its name. The first two replace what has these names.

    Args:
      run: a run directory.
      output: folder of the modules; made where it does not exist.
      seq_length: the preprocessor's length where its caller names none, and the longest input of the serving
        model, in tokens. None: what task.json has, as that of a fine-tuned run does, and else 128.
      encoder_only: whether to write the encoder alone; a run without a vocabulary needs it.
      version: of the serving model; a new one.
      dtype: in which the modules hold their variables and compute: "float32" or "bfloat16".
      check: whether a fresh process checks what was written, see hub_export.check.
      step: of the checkpoint to export; None: that which `load` takes.
    Returns:
      The folders written.
    Raises:
      ValueError: the run is damaged, its weights are non-finite, or it does not fit the arguments.
      FileExistsError: the version exists.
      OSError: a file cannot be read or written.
      CheckFailed: the check found a fault; nothing was written.
    """
    output, vocabulary = Path(output), vocabulary_path(run)
    check_place(output, is_folder=True)
    tokenizer = None if encoder_only else _tokenizer(run)
    task = read_task(run)
    if seq_length is None:
        seq_length = task.get("seq_length", SEQ_LENGTH)
    if tokenizer is not None:
        _check_seq_length(seq_length, read_config(run))
        _check_version(version, output)
    model = in_dtype(load(run, step), dtype)
    check_finite(model, run, step)
    for name in (PREPROCESSOR, ENCODER):
        _check_replaceable(output / name)
    with _staging(output) as stage:
        expected = {}
        if tokenizer is not None:
            preprocessor = Preprocessor(tokenizer, seq_length)
            expected[PREPROCESSOR] = _save_module(preprocessor, stage / PREPROCESSOR)
        encoder = encoder_module(model, vocabulary)
        expected[ENCODER] = _save_module(
            encoder,
            stage / ENCODER,
            # Concrete: traced while it is saved, it would trace the encoder's call again.
            {DEFAULT: ids_signature(encoder).get_concrete_function()},
            {DEFAULT: example_ids()},
        )
        _describe(Path(run), stage / ENCODER)
        if tokenizer is not None:
            served = f"{SERVING}/{version}"
            expected[served] = _save_serving(Served(model, tokenizer, seq_length, task), stage / served)
        if check:
            _check_in_fresh_process(stage, expected)
        if tokenizer is not None:  # the first to appear, for it alone may find its name taken by now
            _add(stage / served, output / served)
        for name in expected.keys() & {PREPROCESSOR, ENCODER}:
            _replace(stage / name, output / name)
    return [output / name for name in expected]


def _tokenizer(run: str | os.PathLike[str]) -> PieceTokenizer:
    """The tokenizer of a run, or a ValueError that says why it can have none."""
    config, path = read_config(run), vocabulary_path(run)
    if path is None:
        raise InputError(f"{run} has no vocabulary: only its encoder can be exported (--encoder_only)")
    check_vocabulary(path, config.vocab_size)
    return PieceTokenizer(Vocabulary.from_file(path), **read_tokenizer(run))


def _check_seq_length(seq_length: int, config: AlbertConfig) -> None:
    if seq_length < SHORTEST:
        raise InputError(f"seq_length={seq_length} must be at least {SHORTEST}")
    if seq_length > config.max_position_embeddings:
        raise InputError(
            f"seq_length={seq_length} is more than max_position_embeddings={config.max_position_embeddings}"
        )


def _check_version(version: int, output: Path) -> None:
    if version < 1:
        raise InputError(f"version={version} must be at least 1")
    if version > NEWEST:
        raise InputError(f"version={version} must be at most {NEWEST}, the last that TF Serving knows")
    folder = output / SERVING / str(version)
    if os.path.lexists(folder):
        raise _version_exists(folder)
    check_place(folder.parent, is_folder=True)


def _version_exists(folder: Path) -> FileExistsError:
    return FileExistsError(f"{folder} exists already: a server may hold it; choose another --version")


def _save_module(
    module: Module,
    folder: Path,
    signatures: Mapping[str, Any] | None = None,
    requests: Mapping[str, Mapping[str, tf.Tensor]] | None = None,
) -> Answers:
    """Writes a module; returns what it answers in memory when called, and its signatures to requests."""
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return call_answers(module) | signature_answers(signatures or {}, list((requests or {}).items()))


def _describe(run: Path, encoder: Path) -> None:
    """Puts what no graph tells into the encoder's assets: `convert --from hub` makes a run of it again."""
    assets = encoder / "assets"
    assets.mkdir(exist_ok=True)
    for file, name in DESCRIPTION.items():
        shutil.copyfile(run / file, assets / name)


def _save_serving(served: Served, folder: Path) -> Answers:
    """Writes a model for TF Serving with its warm-up requests; returns what it answers in memory."""
    signatures = serving_signatures(served)
    root = Module(served.model.variables)
    root.tokenizer = served.tokenizer
    requests = {
        name: {key: tf.constant(value) for key, value in signature.example.items()}
        for name, signature in signatures.items()
    }
    functions = {name: signature.function.get_concrete_function() for name, signature in signatures.items()}
    answers = _save_module(root, folder, functions, requests)
    write_requests(folder, requests)
    return answers


def _check_in_fresh_process(stage: Path, expected: Mapping[str, Answers]) -> None:
    """Raises CheckFailed where `python -m hub_export.check` finds a fault."""
    answers = stage / "answers.npz"
    write_expected(answers, expected)
    command = [sys.executable, "-m", "hub_export.check", str(stage), "--expected", str(answers)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        lines = done.stderr.splitlines() or [f"the check ended with status {done.returncode}"]
        raise CheckFailed(lines[-1].removeprefix("hub_export.check: "))


@contextlib.contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """A hidden folder in `output`, which vanishes with all that is left in it."""
    output.mkdir(parents=True, exist_ok=True)
    stage = unfinished(output / "export")
    stage.mkdir()
    try:
        with writing(output, stage):
            yield stage
    finally:
        shutil.rmtree(stage)


def _check_replaceable(target: Path) -> None:
    """FileExistsError if there is something that no export has written."""
    if target.exists() and not (target / "saved_model.pb").exists():
        raise FileExistsError(f"{target} is not an exported module: name another --output")


def _add(new: Path, target: Path) -> None:
    """Gives a folder a name that no other has."""
    target.parent.mkdir(exist_ok=True)
    try:
        new.rename(target)
    except OSError as error:
        if os.path.lexists(target):
            raise _version_exists(target) from error
        raise


def _replace(new: Path, target: Path) -> None:
    """Gives a folder the name of another, which goes where the new one was: into the staging folder."""
    old = new.with_name(f"old-{new.name}")
    if target.exists():
        target.rename(old)
    new.rename(target)
