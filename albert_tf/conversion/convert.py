"""Converts checkpoints of other implementations to run directories, and back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from absl import logging

from albert_tf.constants import FIRST, TRUNCATE
from albert_tf.conversion import google, huggingface
from albert_tf.conversion.download import local_checkpoint
from albert_tf.conversion.huggingface_tokenizer import with_tokenizer
from albert_tf.conversion.tokenizer_json import FAST_TOKENIZER, albert_tokenizer_json
from albert_tf.conversion.transfer import ForeignModel, read_model, unpack
from albert_tf.errors import InputError
from albert_tf.filesystem import check_new_folder, check_no_glob, gfile_path
from albert_tf.io import PathLike, check_new_local_folder, new_local_folder, write_local_json
from albert_tf.runs.build_model import build_model, check_vocabulary
from albert_tf.runs.load_save import check_finite, save
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import (
    SENTENCEPIECE,
    TOKENIZER_KIND,
    fingerprint_of,
    read_tokenizer_kind,
    read_vocabulary,
    resolve_settings,
    tokenizer_settings_path,
)


class Conversion(NamedTuple):
    """The result of a conversion."""

    unused: list[str]  # names of tensors that were not converted, since the target has no place for them
    newly_initialized: list[str]  # names of variables that the source does not have, initialised at random
    vocabulary: str = ""  # where the vocabulary of a new run comes from, or why it has none


def convert(
    source: str,
    target: str,
    input: PathLike,
    output: PathLike,
    vocabulary: PathLike | None = None,
    config: PathLike | None = None,
    partial: bool = False,
    command: str = "",
    step: int | None = None,
    revision: str | None = None,
    tokenizer: Mapping[str, bool] | None = None,
) -> Conversion:
    """Converts a checkpoint from or to the format of another implementation.

    One of the two formats is always "run". The output appears whole or not at all.

    Args:
      source: format of the input: "google", "huggingface", "hub" or "run".
      target: format of the output: "run"; if the input is a run, "google" or "huggingface".
      input: path of the checkpoint's folder, of its .tar.gz or of the file with its weights; or a published
        name: an archive of Google ("albert_base_v2"), a repository of Hugging Face
        ("albert/albert-base-v2") or an address of TF Hub ("https://…").
      output: path of the new folder.
      vocabulary: path of the vocabulary. None: the vocabulary beside the checkpoint, if there is one.
      config: path of the JSON config. None: the config beside the checkpoint.
      partial: True to read only the encoder and to initialise missing weights at random.
      command: the command line, for recipe.json.
      step: training step of a run's checkpoint. None: the step that `load` takes.
      revision: branch, tag or commit of a repository of Hugging Face. None: main.
      tokenizer: settings of a new run's tokenizer, `lowercase` and `strip_accents` (bool each), for a
        checkpoint without them. None: True each, or False if a WordPiece vocabulary has capital letters.
    Returns:
      A named tuple. `unused`: names of tensors that were not converted, since the target has no place for
      them. `newly_initialized`: names of variables that the source does not have, initialised at random.
      `vocabulary`: where the vocabulary of a new run comes from.
    Raises:
      FileNotFoundError: the checkpoint or its config does not exist.
      FileExistsError: `output` exists.
      InputError: this conversion does not exist; the checkpoint is damaged, holds NaN, or does not fit its
        config or vocabulary; or the target format cannot express the network or the tokenizer.
      WorkFailed: a published checkpoint cannot be downloaded.

    Example:
      >>> from albert_tf.conversion.convert import convert
      >>> convert("run", "huggingface", "demo-output/run", "to_hf").unused
      []
      >>> convert("huggingface", "run", "to_hf", "from_hf").newly_initialized
      []
    """
    # Writing checks this, too, but only after a large checkpoint has been read.
    if target == "run":
        check_new_folder(gfile_path(output, "output"))
    else:
        check_new_local_folder(Path(output))
    if target == "google":
        check_no_glob(output, "output")
    if source == "run" and target in WRITERS:
        if partial or config is not None or revision is not None:
            raise InputError("a run is converted whole: leave out config, partial and revision")
        return Conversion(_write_format(target, RunDirectory(input), Path(output), vocabulary, step), [])
    if source not in READERS or target != "run":
        known = f"{', '.join(READERS)} to run, run to {' or '.join(WRITERS)}"
        raise InputError(f"no conversion from {source} to {target}: there are {known}")
    if step is not None:
        raise InputError(f"step={step} is of a run's checkpoint: leave it out")
    checkpoint, commit = local_checkpoint(input, source, revision)
    with unpack(checkpoint) as path, tempfile.TemporaryDirectory() as scratch:
        foreign = READERS[source](path, Path(config) if config else None, partial)
        foreign, origin = _add_vocabulary(foreign, source, vocabulary, path, Path(scratch))
        model, unused, newly_initialized = read_model(foreign, partial)
        recipe = {
            **{"converted_from": source, "input": str(input), "command": command},
            **({"commit": commit} if commit else {}),
            **{"unread": unused, "fresh": newly_initialized},
            "versions": {name: metadata.version(name) for name in ("tensorflow", "tf_keras", "numpy")},
        }
        settings = {**(tokenizer or {}), **(foreign.tokenizer or {})}
        save(model, output, foreign.vocabulary, tokenizer=settings, recipe=recipe, task=foreign.task)
    return Conversion(unused, newly_initialized, origin)


def _add_vocabulary(
    foreign: ForeignModel, format: str, vocabulary: PathLike | None, path: Path, scratch: Path
) -> tuple[ForeignModel, str]:
    """Adds the vocabulary to a checkpoint, and says where it comes from."""
    file = None if vocabulary is None else Path(vocabulary)
    if format == "huggingface":
        folder = path if path.is_dir() else path.parent
        foreign = with_tokenizer(foreign, folder, scratch, file)
    elif file is not None:
        foreign = foreign._replace(vocabulary=file)
    if foreign.vocabulary is None:
        return foreign, "none: there is none beside the checkpoint; --vocabulary names one"
    is_rebuilt = foreign.vocabulary.parent == scratch
    return foreign, f"rebuilt from {FAST_TOKENIZER}" if is_rebuilt else str(file or foreign.vocabulary.name)


# Functions of a checkpoint's path, the path of its config or None, and `partial`.
READERS: dict[str, Callable[[Path, Path | None, bool], ForeignModel]] = {
    "google": google.open_google_checkpoint,
    "huggingface": huggingface.open_hugging_face_folder,
    "hub": google.open_hub_module,
}
# Formats that can be written, with the file name of their vocabulary.
WRITERS = {"google": google.GOOGLE_VOCABULARY, "huggingface": huggingface.HUGGING_FACE_VOCABULARY}


def _write_format(
    target: str, run: RunDirectory, output: Path, vocabulary: PathLike | None, step: int | None
) -> list[str]:
    """Writes a run in another format; returns the names of the variables that the format does not have."""
    if (pooling := run.task.get("pooling", FIRST)) != FIRST:
        raise InputError(
            f"{run} has pooling={pooling!r}, and classifiers elsewhere read the pooled output: convert its "
            "encoder alone, which in Python albert_tf.save(albert_tf.load(RUN).encoder, …) makes a run of"
        )
    if (long := run.task.get("long", TRUNCATE)) != TRUNCATE:
        length = run.task["seq_length"]
        logging.warning(
            "%s has long=%r: other programs read the first %d tokens of a text", run, long, length
        )
    step = run.step_or_default(step)
    task = {name: value for name, value in run.task.items() if name != "early_exit"}
    model = build_model(run.config, task, run.variables(step))
    check_finite(model, run, step)
    file = Path(vocabulary) if vocabulary else run.vocabulary
    kind, files, special = run.tokenizer_kind, dict[str, bytes](), None
    if file is not None:
        kind, files = read_tokenizer_kind(file), read_vocabulary(file)
        run.check_vocabulary(file, fingerprint_of(files))
        check_vocabulary(file, model.config.vocab_size, exactly=True)
        special = open_tokenizer(file).vocabulary.special_ids
    tokenizer = run.tokenizer if file is None else resolve_settings(file, run.tokenizer_of(file))
    with new_local_folder(output) as folder:
        if target == "google":
            google.write_google(model, folder, step or 0)
        else:
            huggingface.write_hugging_face(model, folder, run.task, tokenizer, kind, special)
        if files and kind == SENTENCEPIECE:
            (content,) = files.values()
            files = {WRITERS[target]: content}  # the formats have other names for it
            if target == "huggingface":
                write_local_json(folder / FAST_TOKENIZER, albert_tokenizer_json(content, tokenizer))
        if files and (kind == SENTENCEPIECE or target == "google"):  # transformers has a file for the others'
            settings_file = tokenizer_settings_path(folder / next(iter(files)))
            write_local_json(settings_file, {TOKENIZER_KIND: kind, **tokenizer})
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return [name for name in run.shapes if name.startswith("exits/")]
