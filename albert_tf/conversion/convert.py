"""`convert`: checkpoints of other implementations to run directories, and back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from albert_tf.constants import FIRST
from albert_tf.conversion import google, huggingface
from albert_tf.conversion.download import local_checkpoint
from albert_tf.conversion.google import hub_source
from albert_tf.conversion.huggingface_tokenizer import with_tokenizer
from albert_tf.conversion.tokenizer_json import FAST_TOKENIZER, albert_tokenizer
from albert_tf.conversion.transfer import ForeignModel, read_model, unpack
from albert_tf.errors import InputError
from albert_tf.filesystem import check_no_glob
from albert_tf.io import PathLike, check_new, new_directory, write_local_json
from albert_tf.runs.build_model import build_model, check_vocabulary
from albert_tf.runs.load_save import check_finite, save
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import (
    SENTENCEPIECE,
    fingerprint_of,
    read_tokenizer_kind,
    read_vocabulary,
    resolve_settings,
    write_settings_beside,
)


class Conversion(NamedTuple):
    """The result of a conversion."""

    unread: list[str]  # tensors of the source that the target has no place for
    fresh: list[str]  # variables that the source did not have, initialised at random
    vocabulary: str = ""  # of a run, where it came from, or why it has none


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
      target: format of the output: "run", or from a run "google" or "huggingface".
      input: the folder or .tar.gz of the checkpoint, or the file with its weights; or a published name: an
        archive of Google ("albert_base_v2"), a repository of Hugging Face ("albert/albert-base-v2") or an
        address of TF Hub ("https://…").
      output: path of the new folder.
      vocabulary: path of the vocabulary. None: the one beside the checkpoint, if there is one.
      config: path of the JSON config. None: the one beside the checkpoint.
      partial: True to read only the encoder and to initialise missing weights at random.
      command: the command line, for recipe.json.
      step: for a run, training step of the checkpoint. None: as `load` chooses it.
      revision: for a repository of Hugging Face, its branch, tag or commit. None: main.
      tokenizer: for a new run, `lowercase` and `strip_accents` (bool each), if the checkpoint does not have
        them.
    Returns:
      A named tuple. `unread`: names of tensors of the source that the target has no place for. `fresh`: names
      of variables that the source does not have, initialised at random. `vocabulary`: where the vocabulary of
      a new run comes from.
    Raises:
      FileNotFoundError: the checkpoint or its config does not exist.
      FileExistsError: `output` exists.
      InputError: there is no such conversion; the checkpoint is damaged, holds NaN, or does not fit its
        config or vocabulary; or the target format has no such network or tokenizer.
      WorkFailed: a published checkpoint cannot be downloaded.

    Example:
      >>> from albert_tf.conversion.convert import convert
      >>> convert("run", "huggingface", "demo-output/run", "to_hf").unread
      []
      >>> convert("huggingface", "run", "to_hf", "from_hf").fresh
      []
    """
    # Also found when it comes to writing, but reading a large checkpoint takes a while.
    check_new(Path(output))
    if target == "google":
        check_no_glob(output, "output")
    if source == "run" and target in WRITERS:
        if partial or config is not None or revision is not None:
            raise InputError("a run is converted whole: leave out config, partial and revision")
        return Conversion(_write(target, RunDirectory(input), Path(output), vocabulary, step), [])
    if source not in READERS or target != "run":
        known = f"{', '.join(READERS)} to run, run to {' or '.join(WRITERS)}"
        raise InputError(f"no conversion from {source} to {target}: there are {known}")
    if step is not None:
        raise InputError(f"step={step} is of a run's checkpoint: leave it out")
    place, commit = local_checkpoint(input, source, revision)
    with unpack(place) as path, tempfile.TemporaryDirectory() as scratch:
        found = READERS[source](path, Path(config) if config else None, partial)
        found, origin = _with_vocabulary(found, source, vocabulary, path, Path(scratch))
        model, unread, fresh = read_model(found, partial)
        recipe = {
            **{"converted_from": source, "input": str(input), "command": command},
            **({"commit": commit} if commit else {}),
            **{"unread": unread, "fresh": fresh},
            "versions": {name: metadata.version(name) for name in ("tensorflow", "tf_keras", "numpy")},
        }
        settings = {**(tokenizer or {}), **(found.tokenizer or {})}
        save(model, output, found.vocabulary, tokenizer=settings, recipe=recipe, task=found.task)
    return Conversion(unread, fresh, origin)


def _with_vocabulary(
    source: ForeignModel, format: str, given: PathLike | None, path: Path, scratch: Path
) -> tuple[ForeignModel, str]:
    """A source with its vocabulary as a file, and where that comes from."""
    folder, given = path if path.is_dir() else path.parent, None if given is None else Path(given)
    if format == "huggingface":
        source = with_tokenizer(source, folder, scratch, given)
    elif given is not None:
        source = source._replace(vocabulary=given)
    if source.vocabulary is None:
        return source, "none: there is none beside the checkpoint; --vocabulary names one"
    is_rebuilt = source.vocabulary.parent == scratch
    return source, f"rebuilt from {FAST_TOKENIZER}" if is_rebuilt else str(given or source.vocabulary.name)


# From a folder or file, a config file or None, and `partial`.
READERS: dict[str, Callable[[Path, Path | None, bool], ForeignModel]] = {
    "google": google.google_source,
    "huggingface": huggingface.hugging_face_source,
    "hub": hub_source,
}
# Each format that is written, and its vocabulary's file name.
WRITERS = {"google": google.GOOGLE_VOCABULARY, "huggingface": huggingface.HUGGING_FACE_VOCABULARY}


def _write(
    target: str, run: RunDirectory, output: Path, vocabulary: PathLike | None, step: int | None
) -> list[str]:
    """Writes a run in the format of another implementation; returns variables that the format has not."""
    if (pooling := run.task.get("pooling", FIRST)) != FIRST:
        raise InputError(
            f"{run} has pooling={pooling!r}, and classifiers elsewhere read the pooled output: convert its "
            "encoder alone, which in Python albert_tf.save(albert_tf.load(RUN).encoder, …) makes a run of"
        )
    step = run.default_step() if step is None else step
    task = {name: value for name, value in run.task.items() if name != "early_exit"}
    model = build_model(run.config, task, run.variables(step))
    check_finite(model, run, step)
    pieces = Path(vocabulary) if vocabulary else run.vocabulary
    kind, files, special = SENTENCEPIECE, dict[str, bytes](), None
    if pieces is not None:
        kind, files = read_tokenizer_kind(pieces), read_vocabulary(pieces)
        run.check_vocabulary(pieces, fingerprint_of(files))
        check_vocabulary(pieces, model.config.vocab_size, exactly=True)
        special = open_tokenizer(pieces).vocabulary.special_ids
    tokenizer = resolve_settings(pieces, run.tokenizer)
    with new_directory(output) as folder:
        if target == "google":
            google.write_google(model, folder, step or 0)
        else:
            huggingface.write_hugging_face(model, folder, run.task, tokenizer, kind, special)
        if files and kind == SENTENCEPIECE:
            (content,) = files.values()
            files = {WRITERS[target]: content}  # which the formats call by names of their own
            write_settings_beside(folder / WRITERS[target], tokenizer)
            if target == "huggingface":
                write_local_json(folder / FAST_TOKENIZER, albert_tokenizer(content, tokenizer))
        for name, content in files.items():
            (folder / name).write_bytes(content)
    return [name for name in run.shapes if name.startswith("exits/")]
