"""Finds the files of a foreign checkpoint, and makes a model of its tensors."""

from __future__ import annotations

import contextlib
import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.conversion.name_mapping import VariableMap, head_names
from albert_tf.errors import InputError
from albert_tf.runs.build_model import build_model, check_vocabulary
from albert_tf.runs.checkpoints import CheckpointTensors

# File names of vocabularies beside published checkpoints; for byte-level BPE, the first of its two files.
VOCABULARIES = ("30k-clean.model", "spiece.model", "vocab.txt", "vocab.json")


@contextlib.contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """Unpacks an archive, as a context with a temporary folder. Other paths are returned as they are.

    If a folder contains only another folder, the inner one is returned.

    Args:
      path: path of a .tar.gz, .tgz or .tar file, or of anything else.
    Raises:
      InputError: the archive is damaged.
      OSError: the archive does not exist, or cannot be read.
    """
    if not path.name.endswith((".tar.gz", ".tgz", ".tar")):
        yield _enter_only_folder(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with tarfile.open(path, "r:" if path.suffix == ".tar" else "r:gz") as archive:
                # "data" refuses links, devices and paths that lead out of the folder.
                archive.extractall(folder, filter="data")
                # The checksum of a .gz is at its very end.
                while archive.fileobj is not None and archive.fileobj.read(1 << 20):
                    pass
        except (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError) as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno is not None:
                raise error.__cause__ from None  # the archive itself may be sound
            raise InputError(f"{path} is not an archive, or damaged: {error}") from error
        yield _enter_only_folder(Path(folder))


def _enter_only_folder(path: Path) -> Path:
    entries = list_files(path, "*") if path.is_dir() else []
    return _enter_only_folder(entries[0]) if len(entries) == 1 and entries[0].is_dir() else path


def find_single_file(folder: Path, *patterns: str) -> Path:
    """The only file of a folder that matches the patterns; an error if there are none or several."""
    names, files = " or ".join(patterns), list_files(folder, *patterns)
    if not files:
        raise FileNotFoundError(f"{folder} holds no {names}: no checkpoint can be read there")
    if len(files) > 1:
        several = ", ".join(path.name for path in files)
        raise InputError(f"{folder} holds several {names}: name one of {several}")
    return files[0]


def list_files(folder: Path, *patterns: str) -> list[Path]:
    """The files and folders of a folder that match the patterns and are not hidden, sorted."""
    files = {file for pattern in patterns for file in folder.glob(pattern)}
    return sorted(file for file in files if not file.name.startswith("."))


def find_vocabulary(folder: Path) -> Path | None:
    """The vocabulary of a checkpoint, beside it or among its assets; None if there is none."""
    paths = [parent / name for parent in (folder, folder / "assets") for name in VOCABULARIES]
    paths += list_files(folder / "assets", "*.model")
    return next((path for path in paths if path.is_file()), None)


FLOATS = ("float16", "bfloat16", "float32", "float64")


class ForeignModel(NamedTuple):
    """A checkpoint of another implementation, opened but not read, with its config, task and vocabulary."""

    tensors: CheckpointTensors
    config: AlbertConfig
    task: dict[str, Any]  # the entries of task.json
    variable_map: Mapping[str, VariableMap]  # names and shapes of the tensors, by our names of the variables
    vocabulary: Path | None
    tokenizer: dict[str, bool] | None = None  # the entries of tokenizer.json
    is_ignored: Callable[[str], bool] = lambda name: False  # True for a tensor that no variable needs
    optional: Collection[str] = ()  # variables that may be missing, by our names


def read_model(source: ForeignModel, partial: bool = False) -> tuple[Any, list[str], list[str]]:
    """Builds the model of a checkpoint and reads its weights.

    Args:
      source: the checkpoint.
      partial: True if variables may be missing and tensors may be unused.
    Returns:
      The model; the names of unused tensors; the names of variables that the checkpoint does not have.
    Raises:
      InputError: the checkpoint does not fit its config or vocabulary, with all names; it is damaged, or
        holds non-finite values.
    """
    tensors, vocabulary = source.tensors, source.vocabulary
    names = {stored.name for stored in source.variable_map.values()}
    unused = sorted(tensors.shapes.keys() - names)
    newly_initialized = [
        name for name, stored in source.variable_map.items() if stored.name not in tensors.shapes
    ]
    problems = []
    if vocabulary is not None:
        try:
            check_vocabulary(vocabulary, source.config.vocab_size, exactly=True)
        except InputError as error:
            problems.append(str(error))
    if not partial:
        missing = [
            source.variable_map[name].name for name in newly_initialized if name not in source.optional
        ]
        problems += [f"{name} is missing" for name in missing]
        problems += [f"{name} is unknown" for name in unused if not source.is_ignored(name)]
    elif len(newly_initialized) == len(source.variable_map):
        problems.append("none of the encoder's variables is there")
    for name, shape, *_ in source.variable_map.values():
        if tensors.shapes.get(name, shape) != shape:
            problems.append(f"{name} is {list(tensors.shapes[name])}, the config says {list(shape)}")
        elif tensors.dtypes.get(name, FLOATS[0]) not in FLOATS:
            problems.append(f"{name} is of type {tensors.dtypes[name]}, none of {', '.join(FLOATS)}")
    if problems:
        raise InputError(f"{tensors.origin}: {'; '.join(problems)}")

    def read(name: str) -> np.ndarray | None:
        stored = source.variable_map.get(name)
        if stored is None or stored.name not in tensors.shapes:
            return None
        with np.errstate(over="ignore"):  # overflows are found below
            value = tensors.read(stored.name).astype(np.float32, copy=False)
        if not np.isfinite(value).all():
            raise InputError(f"{tensors.origin}: {stored.name} holds NaN or infinity")
        return stored.convert(value)

    return build_model(source.config, source.task, read), unused, newly_initialized


def with_usual_names(tensors: CheckpointTensors, scope: str, anchor: str) -> CheckpointTensors:
    """Renames the tensors of a bare encoder, or of a part of a larger model, to the usual names.

    Args:
      tensors: the checkpoint. Without the anchor, its names do not change.
      scope: usual prefix of the encoder's names, not of the heads' names: "bert/", "albert.", ….
      anchor: usual name of the word embeddings, without the scope.
    Raises:
      InputError: the checkpoint holds several models.
    """
    separator = scope[-1]
    anchors = [name for name in tensors.shapes if f"{separator}{name}".endswith(f"{separator}{anchor}")]
    encoder = anchors[0].removesuffix(anchor) if anchors else scope
    outside = "".join(encoder[:-1].rpartition(separator)[:2])
    parts = tuple(
        f"{encoder}{part}{separator}" for part in ("embeddings", "encoder", "transformer", "pooler")
    )
    names = {
        scope + name.removeprefix(encoder) if name.startswith(parts) else name.removeprefix(outside): name
        for name in tensors.shapes
    }
    if len(anchors) > 1 or len(names) < len(tensors.shapes):
        raise InputError(f"{tensors.origin} holds several models: {', '.join(sorted(anchors))}")
    return tensors.rename(names)


# Tasks whose heads a checkpoint may have. Sentence-order and next-sentence heads have the same name; ALBERT
# is trained with the first, BERT with the second.
_TASKS: tuple[dict[str, Any], ...] = (
    {"model": "classifier", "num_labels": 1},
    {"model": "token_classifier", "num_labels": 1},
    {"model": "span_labeler"},
    {"model": "span_labeler", "answerability": True},
    {"model": "pretrainer", "sentence_objective": "sop"},
    {"model": "pretrainer", "sentence_objective": "none"},
)


def infer_task(tensors: CheckpointTensors, form: str, family: str = "albert") -> dict[str, Any]:
    """Infers the entries of task.json from the heads in a checkpoint; an encoder if it has no known head.

    Args:
      tensors: the checkpoint, with the usual names.
      form: format of the checkpoint, "google" or "hugging_face".
      family: the family whose names the checkpoint has.
    """
    for task in _TASKS:
        names = head_names(form, task, family)
        if tensors.shapes.keys() >= {names[0], names[-1]}:
            if family == "bert" and task.get("sentence_objective") == "sop":
                return {**task, "sentence_objective": "nsp"}
            shape = tensors.shapes[names[0]]
            return {**task, "num_labels": shape[0] if shape else 1} if "num_labels" in task else dict(task)
    return {"model": "encoder"}


GroupFunction = Callable[[int, int, int], int]


def check_groups(config: AlbertConfig, group: GroupFunction) -> None:
    """Raises InputError if other code, which rounds fractions, would put a layer into another group.

    Args:
      config: config of the network.
      group: the other code's function from a layer's index, L and G to the layer's group.
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    if any(group(layer, layers, groups) != layer * groups // layers for layer in range(layers)):
        raise InputError(
            f"num_hidden_groups={groups}: {layers} layers are grouped otherwise there, by rounding"
        )


def to_layer_groups(config: AlbertConfig, group: GroupFunction) -> AlbertConfig:
    """The same network with sharing="all", for formats with no other value; "none" becomes a group per layer.

    Args:
      config: config of the network.
      group: see `check_groups`.
    Raises:
      InputError: layers share only one of the two blocks, or other code groups the layers differently.
    """
    if config.sharing in ("attention", "ffn"):
        raise InputError(f'sharing="{config.sharing}" has no form there: layers share both blocks or none')
    if config.sharing == "none":
        config = config.replace(sharing="all", num_hidden_groups=config.num_hidden_layers)
    check_groups(config, group)
    return config
