"""Variables of a foreign checkpoint to a model, and where its files are found."""

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
from albert_tf.errors import InputError
from albert_tf.runs.build_model import build_model, check_vocabulary
from albert_tf.runs.checkpoints import CheckpointTensors
from albert_tf.runs.variable_names import VariableMap, head_names

# What the vocabulary is called beside published checkpoints; of byte-level BPE, the first of its files.
VOCABULARIES = ("30k-clean.model", "spiece.model", "vocab.txt", "vocab.json")


@contextlib.contextmanager
def unpack(path: Path) -> Iterator[Path]:
    """A folder with the content of an archive while the block lasts, or the path itself.

    A folder in a folder that holds nothing else is taken for it.

    Args:
      path: a .tar.gz, .tgz or .tar file, or anything else.
    Raises:
      InputError: the archive is damaged.
      OSError: it does not exist, or cannot be read.
    """
    if not path.name.endswith((".tar.gz", ".tgz", ".tar")):
        yield _inner(path)
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
                raise error.__cause__ from None  # of an archive that may be sound
            raise InputError(f"{path} is not an archive, or damaged: {error}") from error
        yield _inner(Path(folder))


def _inner(path: Path) -> Path:
    entries = files_in(path, "*") if path.is_dir() else []
    return _inner(entries[0]) if len(entries) == 1 and entries[0].is_dir() else path


def find_only(folder: Path, *patterns: str) -> Path:
    """The one file of a folder that has such a name; an error where there are none or several."""
    names, found = " or ".join(patterns), files_in(folder, *patterns)
    if not found:
        raise FileNotFoundError(f"{folder} holds no {names}: no checkpoint can be read there")
    if len(found) > 1:
        several = ", ".join(path.name for path in found)
        raise InputError(f"{folder} holds several {names}: name one of {several}")
    return found[0]


def files_in(folder: Path, *patterns: str) -> list[Path]:
    """The files and folders of a folder that have such a name and are not hidden, in order."""
    found = {file for pattern in patterns for file in folder.glob(pattern)}
    return sorted(file for file in found if not file.name.startswith("."))


def find_vocabulary(folder: Path) -> Path | None:
    """The vocabulary of a checkpoint, beside it or among its assets; None where there is none."""
    places = [place / name for place in (folder, folder / "assets") for name in VOCABULARIES]
    return next((path for path in [*places, *files_in(folder / "assets", "*.model")] if path.is_file()), None)


FLOATS = ("float16", "bfloat16", "float32", "float64")


class ForeignModel(NamedTuple):
    """A checkpoint of another implementation, opened but not read, and what was found beside it."""

    tensors: CheckpointTensors
    config: AlbertConfig
    task: dict[str, Any]  # of task.json
    stored: Mapping[str, VariableMap]  # every variable of the model, by our names
    vocabulary: Path | None
    tokenizer: dict[str, bool] | None = None  # of tokenizer.json
    is_ignored: Callable[[str], bool] = lambda name: False  # True for a tensor that no variable needs
    optional: Collection[str] = ()  # variables that the model may do without, by our names


def read_model(source: ForeignModel, partial: bool = False) -> tuple[Any, list[str], list[str]]:
    """The model in a checkpoint.

    Args:
      source: the checkpoint.
      partial: True if variables may be missing and tensors may be left over.
    Returns:
      The model; the tensors that nothing here needs; the variables that the checkpoint does not have.
    Raises:
      InputError: the checkpoint and its config or vocabulary do not fit, with all names; it is damaged, or
        holds non-finite values.
    """
    tensors, vocabulary = source.tensors, source.vocabulary
    names = {stored.name for stored in source.stored.values()}
    unread = sorted(tensors.shapes.keys() - names)
    fresh = [name for name, stored in source.stored.items() if stored.name not in tensors.shapes]
    problems = []
    if vocabulary is not None:
        try:
            check_vocabulary(vocabulary, source.config.vocab_size, exactly=True)
        except InputError as error:
            problems.append(str(error))
    if not partial:
        missing = [source.stored[name].name for name in fresh if name not in source.optional]
        problems += [f"{name} is missing" for name in missing]
        problems += [f"{name} is unknown" for name in unread if not source.is_ignored(name)]
    elif len(fresh) == len(source.stored):
        problems.append("none of the encoder's variables is there")
    for name, shape, *_ in source.stored.values():
        if tensors.shapes.get(name, shape) != shape:
            problems.append(f"{name} is {list(tensors.shapes[name])}, the config says {list(shape)}")
        elif tensors.dtypes.get(name, FLOATS[0]) not in FLOATS:
            problems.append(f"{name} is of type {tensors.dtypes[name]}, none of {', '.join(FLOATS)}")
    if problems:
        raise InputError(f"{tensors.origin}: {'; '.join(problems)}")

    def read(name: str) -> np.ndarray | None:
        stored = source.stored.get(name)
        if stored is None or stored.name not in tensors.shapes:
            return None
        with np.errstate(over="ignore"):  # found below
            value = tensors.read(stored.name).astype(np.float32, copy=False)
        if not np.isfinite(value).all():
            raise InputError(f"{tensors.origin}: {stored.name} holds NaN or infinity")
        return stored.converted(value)

    return build_model(source.config, source.task, read), unread, fresh


def with_usual_names(tensors: CheckpointTensors, scope: str, anchor: str) -> CheckpointTensors:
    """A checkpoint of a part of a larger model, or of the encoder alone, by the names that are usual.

    Args:
      tensors: the checkpoint; without an anchor it stays as it is.
      scope: what usually stands before the encoder's names, not the heads': "bert/", "albert.", ….
      anchor: name of the word embeddings behind it.
    Raises:
      InputError: there are several models in the checkpoint.
    """
    separator = scope[-1]
    found = [name for name in tensors.shapes if f"{separator}{name}".endswith(f"{separator}{anchor}")]
    encoder = found[0].removesuffix(anchor) if found else scope
    outside = "".join(encoder[:-1].rpartition(separator)[:2])
    parts = tuple(
        f"{encoder}{part}{separator}" for part in ("embeddings", "encoder", "transformer", "pooler")
    )
    names = {
        scope + name.removeprefix(encoder) if name.startswith(parts) else name.removeprefix(outside): name
        for name in tensors.shapes
    }
    if len(found) > 1 or len(names) < len(tensors.shapes):
        raise InputError(f"{tensors.origin} holds several models: {', '.join(sorted(found))}")
    return tensors.renamed(names)


# The tasks whose heads a checkpoint may have. Sentence-order and next-sentence heads have one name; ALBERT is
# trained with the former, BERT with the latter.
_TASKS: tuple[dict[str, Any], ...] = (
    {"model": "classifier", "num_labels": 1},
    {"model": "token_classifier", "num_labels": 1},
    {"model": "span_labeler"},
    {"model": "span_labeler", "answerability": True},
    {"model": "pretrainer", "sentence_objective": "sop"},
    {"model": "pretrainer", "sentence_objective": "none"},
)


def infer_task(tensors: CheckpointTensors, form: str, family: str = "albert") -> dict[str, Any]:
    """The entries of task.json that the heads in a checkpoint show; an encoder if it has no known head.

    Args:
      tensors: the checkpoint, with the usual names.
      form: its format, as a field of `Names`.
      family: whose names it has.
    """
    for task in _TASKS:
        names = [getattr(head, form).name for head in head_names(task, family)]
        if tensors.shapes.keys() >= {names[0], names[-1]}:
            if family == "bert" and task.get("sentence_objective") == "sop":
                return {**task, "sentence_objective": "nsp"}
            shape = tensors.shapes[names[0]]
            return {**task, "num_labels": shape[0] if shape else 1} if "num_labels" in task else dict(task)
    return {"model": "encoder"}


Group = Callable[[int, int, int], int]


def check_groups(config: AlbertConfig, group: Group) -> None:
    """InputError if the code of others puts a layer into another group, as it computes with fractions.

    Args:
      config: the network's shape.
      group: the group of a layer there, from the layer's index, L and G.
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    if any(group(layer, layers, groups) != layer * groups // layers for layer in range(layers)):
        raise InputError(
            f"num_hidden_groups={groups}: {layers} layers are grouped otherwise there, by rounding"
        )


def whole_layers(config: AlbertConfig, group: Group) -> AlbertConfig:
    """The same network for formats whose layers share both blocks or none: "none" is a group a layer.

    Raises:
      InputError: layers share one of the two blocks; or as `check_groups`.
    """
    if config.sharing in ("attention", "ffn"):
        raise InputError(f'sharing="{config.sharing}" has no form there: layers share both blocks or none')
    if config.sharing == "none":
        config = config.replace(sharing="all", num_hidden_groups=config.num_hidden_layers)
    check_groups(config, group)
    return config
