"""A run directory to the folders of its exported modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.checkpoints import RunDirectory, load, opened_run
from albert_tf.checkpoints.directory import CONFIG
from albert_tf.checkpoints.run import check_finite
from albert_tf.checkpoints.vocabulary import check_vocabulary
from albert_tf.config import GOOGLE_FILE, AlbertConfig
from albert_tf.tasks.kind import SEQ_LENGTH
from albert_tf.tasks.serving import DEFAULT, Signature
from albert_tf.tokenizer_settings import TOKENIZER
from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import check_place, replace_folder
from hub_export.answers import (
    Answers,
    CheckFailed,
    call_answers,
    example_ids,
    signature_answers,
    write_expected,
)
from hub_export.card import CARD, check_card, check_license, model_card
from hub_export.encoder import encoder_module
from hub_export.facts import Facts
from hub_export.folders import add, check_replaceable, staging, version_exists
from hub_export.module import Module
from hub_export.precision import in_dtype
from hub_export.preprocessor import Preprocessor
from hub_export.serving import Served, ids_signature, serving_signatures
from hub_export.warmup import write_requests

ENCODER, PREPROCESSOR, SERVING = "encoder", "preprocessor", "serving"

# Files of a run, and what they are called among the assets: the config as in Google's TF 1 modules.
DESCRIPTION = {CONFIG: GOOGLE_FILE, TOKENIZER: TOKENIZER}

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
    license: str | None = None,
) -> list[Path]:
    """Writes `<output>/preprocessor`, `<output>/encoder`, `<output>/serving/<version>` and a model card.

    All are written whole before any appears under its name. The modules, and the card `<output>/README.md`,
    replace what has these names; a version of the serving model is a new one.

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
      license: of the weights, by name, for the card; None: it says that none is named.
    Returns:
      The folders written.
    Raises:
      ValueError: the run is damaged, its weights are non-finite, or it does not fit the arguments.
      FileExistsError: the version exists, or what is to be replaced is not of an export.
      OSError: a file cannot be read or written.
      CheckFailed: the check found a fault; nothing was written.
    """
    run, output = opened_run(run), Path(output)
    vocabulary, task = run.vocabulary, run.task
    check_place(output, is_folder=True)
    check_license(license)
    tokenizer = None if encoder_only else _tokenizer(run)
    if seq_length is None:
        seq_length = task.get("seq_length", SEQ_LENGTH)
    if tokenizer is not None:
        _check_seq_length(seq_length, run.config)
        _check_version(version, output)
    if step is None:
        step = run.default_step()
    model = in_dtype(load(run, step), dtype)
    check_finite(model, run, step)
    assert step is not None  # without a checkpoint there is no model
    for name in (PREPROCESSOR, ENCODER):
        check_replaceable(output / name)
    check_card(output / CARD)
    served = None if tokenizer is None else Served(model, tokenizer, seq_length, task)
    signatures = {} if served is None else serving_signatures(served)
    facts = Facts(run, task, step, model, dtype, served, signatures, version, license)
    card = model_card(facts)
    with staging(output) as stage:
        expected = {}
        if served is not None:
            preprocessor = Preprocessor(served.tokenizer, seq_length)
            expected[PREPROCESSOR] = _save_module(preprocessor, stage / PREPROCESSOR)
        expected[ENCODER] = _save_encoder(run, model, vocabulary, stage / ENCODER)
        if served is not None:
            numbered = f"{SERVING}/{version}"
            expected[numbered] = _save_serving(served, signatures, stage / numbered)
        if check:
            _check_in_fresh_process(stage, expected)
        (stage / CARD).write_text(card, encoding="utf-8")
        if served is not None:  # the first to appear, for it alone may find its name taken by now
            add(stage / numbered, output / numbered)
        for name in expected.keys() & {PREPROCESSOR, ENCODER}:
            replace_folder(stage / name, output / name)
        (stage / CARD).replace(output / CARD)
    return [output / name for name in expected]


def _tokenizer(run: RunDirectory) -> PieceTokenizer:
    """The tokenizer of a run, or a ValueError that says why it can have none."""
    config, path = run.config, run.vocabulary
    if path is None:
        raise InputError(f"{run} has no vocabulary: only its encoder can be exported (--encoder_only)")
    check_vocabulary(path, config.vocab_size)
    return PieceTokenizer(Vocabulary.from_file(path), **run.tokenizer)


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
        raise version_exists(folder)
    check_place(folder.parent, is_folder=True)


def _save_module(
    module: Module,
    folder: Path,
    signatures: Mapping[str, Any] | None = None,
    requests: Mapping[str, Mapping[str, tf.Tensor]] | None = None,
) -> Answers:
    """Writes a module; returns what it answers in memory when called, and its signatures to requests."""
    tf.saved_model.save(module, str(folder), signatures=signatures)
    return call_answers(module) | signature_answers(signatures or {}, list((requests or {}).items()))


def _save_encoder(run: RunDirectory, model: keras.Model, vocabulary: Path | None, folder: Path) -> Answers:
    """Writes the encoder; its assets say what no graph tells: `convert --from hub` makes a run of it."""
    encoder = encoder_module(model, vocabulary)
    # Concrete: traced while it is saved, it would trace the encoder's call again.
    signature = ids_signature(encoder).get_concrete_function()
    answers = _save_module(encoder, folder, {DEFAULT: signature}, {DEFAULT: example_ids()})
    assets = folder / "assets"
    assets.mkdir(exist_ok=True)
    for file, name in DESCRIPTION.items():
        shutil.copyfile(run.file(file), assets / name)
    return answers


def _save_serving(served: Served, signatures: Mapping[str, Signature], folder: Path) -> Answers:
    """Writes a model for TF Serving with its warm-up requests; returns what it answers in memory."""
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
