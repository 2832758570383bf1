"""Exports a run directory as modules for TF Hub and a model for TF Serving."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import GOOGLE_FILE
from albert_tf.constants import PRECISIONS
from albert_tf.errors import InputError, already_exists_error, check_choice, check_range
from albert_tf.filesystem import check_no_glob, read_bytes
from albert_tf.io import (
    check_output_path,
    make_folders,
    replace_folder,
    reraise_with_path,
    restore_folder,
    temporary_path,
)
from albert_tf.models.compiled_encoder import CompiledEncoder
from albert_tf.models.heads import OUTPUT_BIASES
from albert_tf.runs.build_model import build_model, task_of
from albert_tf.runs.load_save import load_checked
from albert_tf.runs.run_directory import CONFIG_FILE, TASK_FILE, RunDirectory, open_run
from albert_tf.tasks.batches import compiled_lengths
from albert_tf.tasks.serving import DEFAULT, ServingModel, Signature
from albert_tf.tasks.task import SEQ_LENGTH
from albert_tf.text.tokenizer_config import TOKENIZER_FILE, VOCABULARY_FILES
from hub_export import module_comparison
from hub_export.card import CARD, MARK, model_card
from hub_export.module_comparison import check as check_module
from hub_export.modules import TEXT_SPEC, Module, Preprocessor, encoder_module
from hub_export.serving_signatures import (
    HEAD_SIGNATURE,
    TOKENS_SIGNATURE,
    ids_signature,
    serving_signatures,
)


def cast_model(model: keras.Model, dtype: str) -> keras.Model:
    """Copies a float32 model, with its variables and its computation in a type of PRECISIONS.

    LayerNorm and softmax stay in float32, and so do the biases of a classifier's logits: that of a regression
    is as large as its numbers. For float32 the model itself is returned.
    """
    check_choice("dtype", dtype, PRECISIONS)
    if dtype == "float32":
        return model

    values = {variable.name.removesuffix(":0"): variable for variable in model.variables}

    def create_in_dtype(create: Any, **kwargs: Any) -> tf.Variable:
        is_narrow = not (kwargs["name"] or "").endswith(OUTPUT_BIASES)
        if is_narrow and kwargs["dtype"] == tf.float32:  # Keras' step counter is an integer
            kwargs |= {"dtype": dtype, "initial_value": tf.cast(kwargs["initial_value"], dtype)}
        return create(**kwargs)

    with tf.variable_creator_scope(create_in_dtype):
        return build_model(model.config, task_of(model), values.get, dtype=dtype)


ENCODER, PREPROCESSOR, SERVING = "encoder", "preprocessor", "serving"

# Files of a run and their names among the assets. The config has its name in Google's TF 1 modules.
ASSET_NAMES = {CONFIG_FILE: GOOGLE_FILE, TOKENIZER_FILE: TOKENIZER_FILE}


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
    xla: bool = False,
) -> list[Path]:
    """Exports a run as TF Hub modules and a serving model.

    It writes `<output>/preprocessor`, `<output>/encoder`, `<output>/serving/<version>` and a model card,
    `<output>/README.md`. All appear whole or not at all. Modules and card of an earlier export are replaced;
    the version of the serving model must be new.

    Args:
      run: path of the run directory.
      output: path of the folder. It is new or empty, or holds an earlier export.
      seq_length: default length of the preprocessor and longest input of the serving model, in tokens. None:
        the length in task.json, or 128.
      encoder_only: True to write only the encoder. A run without a vocabulary needs it.
      version: number of the serving model, at least 1.
      dtype: type of the variables and of the computation, "float32" or "bfloat16".
      check: False to skip the check of the written modules (`python -m hub_export.check`).
      step: training step of the checkpoint. None: the step that `albert_tf.load` chooses.
      license: name of the weights' license, for the card.
      xla: True if XLA shall compile the encoders where they run, for a few shapes. For GPUs.
    Returns:
      Paths of the written folders.
    Raises:
      InputError: the run is damaged, its weights hold NaN or infinity, or it does not fit the arguments.
      FileExistsError: the output holds a file or folder that must not be replaced.
      OSError: a file cannot be read or written.
      CheckFailed: the check found an error.

    Example:
      >>> from hub_export.export import export
      >>> [folder.as_posix() for folder in export("demo-output/run", "hub", encoder_only=True, check=False)]
      ['hub/encoder']
    """
    run, output = open_run(run), Path(output)
    if output.resolve() == Path(run.path).resolve():
        raise InputError(f"output={str(output)!r} is the run itself: name another folder")
    task = run.task  # read first: it raises if the folder is not a run
    if not encoder_only and run.vocabulary is None:
        raise InputError(f"{run} has no vocabulary: only its encoder can be exported (`encoder_only`)")
    tokenizer = None if encoder_only else run.load_tokenizer()
    least = 1 if tokenizer is None else 1 + tokenizer.vocabulary.input_format.num_special_tokens(1)
    seq_length = resolve_seq_length(run, seq_length, least)
    check_range("version", version, at_least=1)
    serving_folder = f"{SERVING}/{version}"
    _check_output(output, None if encoder_only else output / serving_folder)
    step = run.step_or_default(step)
    loaded = load_checked(run, step, dtype="float32")
    model = cast_model(loaded, dtype)
    # Numbers of columns that XLA compiles for: lengths of texts, and the longest input for other ids.
    lengths = sorted({*compiled_lengths(seq_length), run.config.max_position_embeddings}) if xla else None
    served = None if tokenizer is None else ServingModel(model, tokenizer, seq_length, task)
    if served is not None and lengths is not None:
        served = served._replace(compiled=CompiledEncoder(served.encoder, lengths))
    signatures = {} if served is None else serving_signatures(served)
    card = model_card(run, step, loaded, dtype, seq_length, serving_folder, signatures, license, xla)
    lowercase = run.tokenizer["lowercase"]
    module = encoder_module(model, run.vocabulary, lowercase, lengths)
    with make_folders(output), temporary_path(output / "export") as stage, reraise_with_path(output, stage):
        stage.mkdir()
        answers = {}
        if served is not None:
            preprocessor = Preprocessor(served.tokenizer, seq_length)
            answers[PREPROCESSOR] = save_preprocessor(preprocessor, stage / PREPROCESSOR)
        answers[ENCODER] = save_encoder(run, module, stage / ENCODER)
        if served is not None:
            answers[serving_folder] = save_serving(run, served, signatures, stage / serving_folder)
        for name, expected in answers.items() if check else ():
            check_module(stage / name, expected)
        (stage / CARD).write_text(card, encoding="utf-8")
        _move_into_place(stage, output, answers.keys(), serving_folder)
    return [output / name for name in answers]


def resolve_seq_length(run: RunDirectory, seq_length: int | None, at_least: int) -> int:
    """The longest input of an exported network, in tokens; if None is named, the run's own, or 128."""
    own, longest = run.task.get("seq_length", SEQ_LENGTH), run.config.max_position_embeddings
    seq_length = min(own, longest) if seq_length is None else seq_length
    check_range("seq_length", seq_length, at_least=at_least, at_most=longest)
    return seq_length


def _check_output(output: Path, version: Path | None) -> None:
    """Raises FileExistsError if a folder holds something that an export must not replace.

    If an earlier export was killed while it replaced a module, the old module gets its name back.
    """
    check_output_path(output, is_folder=True)
    check_no_glob(output, "output")
    if version is None and (output / PREPROCESSOR).exists():
        raise FileExistsError(
            f"{output} holds a preprocessor, which an encoder may not fit: name a new `output`"
        )
    if version is not None:
        check_output_path(version.parent, is_folder=True)
        if os.path.lexists(version):
            raise already_exists_error(version, "name another `version`, for a server may hold this one")
    for target in (output / PREPROCESSOR, output / ENCODER):
        restore_folder(target)
        if target.exists() and not (target / "saved_model.pb").exists():
            raise FileExistsError(f"{target} is not an exported module: name another `output`")
    card = output / CARD
    if card.is_file() and MARK in card.read_text("utf-8", "replace"):
        return
    # An export that was killed may have left modules without their card.
    exported = {ENCODER, PREPROCESSOR, SERVING}
    if others := sorted(path.name for path in output.glob("[!.]*") if path.name not in exported):
        raise FileExistsError(f"{output} holds {others[0]} and is not an export: name a new `output`")


def _move_into_place(stage: Path, output: Path, names: Set[str], serving_folder: str) -> None:
    """Moves finished modules and their card from a temporary folder to the output."""
    if serving_folder in names:  # moved first: only its name may have been taken meanwhile
        (output / SERVING).mkdir(exist_ok=True)
        (stage / serving_folder).rename(output / serving_folder)
    for name in names - {serving_folder}:
        replace_folder(stage / name, output / name)
    (stage / CARD).replace(output / CARD)


def save_module(
    module: Module, folder: Path, functions: Mapping[str, Any], requests: module_comparison.Requests
) -> module_comparison.ModuleAnswers:
    """Writes a module. Returns the outputs that the module and its signatures have in memory."""
    # `tf.saved_model.save` without signatures saves the one in this attribute. So a module that is loaded and
    # saved again keeps its default signature.
    module._default_save_signature = functions[DEFAULT]
    tf.saved_model.save(module, str(folder), signatures=functions)
    return module_comparison.run_module(module) | module_comparison.run_signatures(functions, requests)


def save_preprocessor(preprocessor: Preprocessor, folder: Path) -> module_comparison.ModuleAnswers:
    """Writes the preprocessor, with a signature for clients that call no modules, such as servers."""
    # Not the module's call, since a signature has no arguments besides its inputs.
    signature = tf.function(lambda text: preprocessor(text), autograph=False).get_concrete_function(TEXT_SPEC)
    requests = {DEFAULT: {"text": tf.constant(module_comparison.EXAMPLE_TEXT)}}
    expected = save_module(preprocessor, folder, {DEFAULT: signature}, requests)
    module_comparison.write_requests(folder, requests.items())
    return expected


def save_encoder(run: RunDirectory, encoder: Module, folder: Path) -> module_comparison.ModuleAnswers:
    """Writes the encoder, with the files that `albert-tf convert --from hub` needs."""
    # A concrete function: saving a tf.function would trace the encoder's call again.
    signature = ids_signature(encoder).get_concrete_function()
    expected = save_module(encoder, folder, {DEFAULT: signature}, {DEFAULT: module_comparison.example_ids()})
    copy_files(run, ASSET_NAMES, folder / "assets")
    return expected


def save_serving(
    run: RunDirectory, served: ServingModel, signatures: Mapping[str, Signature], folder: Path
) -> module_comparison.ModuleAnswers:
    """Writes a model for TF Serving with its warm-up requests. Returns the outputs that it has in memory.

    For a fine-tuned run the assets hold the files with which other runtimes turn text into inputs of `head`.
    """
    root = Module(served.model.variables)
    root.tokenizer = served.tokenizer
    requests = {
        name: {key: tf.constant(value) for key, value in signature.example.items()}
        for name, signature in signatures.items()
    }
    functions = {name: signature.function.get_concrete_function() for name, signature in signatures.items()}
    expected = save_module(root, folder, functions, requests)
    if HEAD_SIGNATURE in signatures:
        names = CONFIG_FILE, TOKENIZER_FILE, TASK_FILE, *VOCABULARY_FILES[served.tokenizer.kind]
        copy_files(run, {name: name for name in names}, folder / "assets")
    # With XLA, requests of all shapes compile all programs during the warm-up.
    shapes = served.compiled.shapes if served.compiled is not None else []
    warm_up = [(TOKENS_SIGNATURE, module_comparison.example_ids(*shape)) for shape in shapes]
    module_comparison.write_requests(folder, [*requests.items(), *warm_up])
    return expected


def copy_files(run: RunDirectory, files: Mapping[str, str], folder: Path) -> None:
    """Copies files of a run to a folder. `files` maps names in the run to names in the folder."""
    folder.mkdir(exist_ok=True)
    for file, name in files.items():
        (folder / name).write_bytes(read_bytes(run.file(file)))
