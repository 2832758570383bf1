"""Folders of Hugging Face's transformers, in and out: config.json, safetensors, vocabulary."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging
from safetensors import SafetensorError, safe_open

from albert_tf.config import AlbertConfig
from albert_tf.constants import PUNCTUATION_WORDS, SPACE_WORDS, WORDS
from albert_tf.conversion.huggingface_config import (
    ANY_NUMBER,
    PROBLEM_TYPES,
    REGRESSION,
    hugging_face_config,
    hugging_face_group,
    model_kind,
    tokenizer_config,
)
from albert_tf.conversion.huggingface_tokenizer import TOKENIZER_CONFIG
from albert_tf.conversion.transfer import (
    ForeignModel,
    check_groups,
    files_in,
    find_only,
    infer_task,
    with_usual_names,
)
from albert_tf.errors import InputError, check_choice, check_range, check_type, shorten
from albert_tf.io import dump_json, read_local_json, write_local_json
from albert_tf.runs.build_model import task_of
from albert_tf.runs.checkpoints import CheckpointTensors
from albert_tf.runs.schemas import check_task
from albert_tf.runs.variable_names import HUGGING_FACE_SCOPE, head_names, variable_names
from albert_tf.text.text_tokenizer import SpecialIds
from albert_tf.text.tokenizer_config import SENTENCEPIECE

# Names of NumPy and TensorFlow for those of the format.
_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def open_safetensors(path: Path) -> CheckpointTensors:
    """The tensors of a safetensors file, or of several with an index.

    Args:
      path: `model.safetensors`, or `model.safetensors.index.json` beside its parts.
    Raises:
      InputError: a file is damaged, or the index names no files.
      OSError: a file is missing or cannot be read.
    """
    parts = {path.name}
    if path.suffix == ".json":
        weight_map = read_local_json(path).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(part, str) for part in weight_map.values()):
            raise InputError(f"{path} holds no weight_map of tensors to the names of files beside it")
        parts = set(weight_map.values())
        if outside := sorted(part for part in parts if part in ("", "..") or Path(part).name != part):
            raise InputError(f"{path} names {shorten(outside[0])}, which is no file beside it: copy it again")
    files: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for part in parts:
        with _opened(path.parent / part) as file:
            for name in file.keys():  # noqa: SIM118 - it cannot be iterated over
                view = file.get_slice(name)
                files[name], shapes[name] = path.parent / part, tuple(view.get_shape())
                dtypes[name] = _FLOATS.get(view.get_dtype(), view.get_dtype())

    def read(name: str) -> np.ndarray:
        with _opened(files[name]) as file:  # anew: what was cut off meanwhile is an error and not a crash
            return file.get_tensor(name)

    return CheckpointTensors(str(path), shapes, dtypes, read)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of the format, its header checked; InputError where it is damaged."""
    path.open("rb").close()  # of a file that may not be read the library says that there is none
    try:
        with safe_open(path, "np") as file:
            yield file
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file, or damaged: {error}") from error


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], np.ndarray]
) -> None:
    """Writes float32 tensors one at a time, which the library cannot: it takes all of them at once.

    Args:
      path: the file; in a folder that nobody reads yet, since it grows there.
      shapes: of every tensor, by name.
      read: the values of a tensor, by name.
    """
    # transformers reads no file that does not say what it was written for.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = dump_json(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            file.write(np.ascontiguousarray(read(name), "<f4").data)  # tofile does not say why it fails


HUGGING_FACE_CONFIG, WEIGHTS_FILE, WEIGHTS_INDEX_FILE = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
)
HUGGING_FACE_VOCABULARY = "spiece.model"

_WITHOUT_POOLER = ("ForMaskedLM", "ForTokenClassification", "ForQuestionAnswering")
_POOLER = ("pooler/dense/kernel", "pooler/dense/bias")

_POOLING = "1_Pooling/config.json"  # of sentence-transformers
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")

_PROJECTION = f"{HUGGING_FACE_SCOPE}encoder.embedding_hidden_mapping_in"
# LayerNorms of files that were written from TensorFlow's.
_OLDER_ENDINGS = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}


def hugging_face_source(path: Path, config: Path | None, partial: bool) -> ForeignModel:
    """The weights in a folder of transformers, or one of its files with weights.

    Raises:
      InputError: the config describes another network, or one that this package does not have.
    """
    folder = path if path.is_dir() else path.parent
    _warn_of_pooling(folder / _POOLING)
    tensors = open_safetensors(_weights(path))
    config = config or find_only(folder, HUGGING_FACE_CONFIG)
    values, shape = read_local_json(config), AlbertConfig.from_json_file(config)
    family = shape.family
    tensors = tensors.renamed({_newer(name): name for name in tensors.shapes})
    tensors = with_usual_names(tensors, f"{family}.", "embeddings.word_embeddings.weight")
    tensors, ignored = _without_tied(tensors, family)
    # Positions 0, 1, 2, …
    ignored.add(f"{family}.embeddings.position_ids")
    if family == "albert":
        identity = _identity(shape.hidden_size) if shape.embedding_size == shape.hidden_size else {}
        if identity and all(
            name in tensors.shapes and np.array_equal(tensors.read(name), value)
            for name, value in identity.items()
        ):
            shape = shape.replace(project_embeddings=None)
            ignored |= identity.keys()
        check_groups(shape, hugging_face_group)
    task = {"model": "encoder"}
    if not partial:
        try:
            task = _task(infer_task(tensors, "hugging_face", family), values)
        except InputError as error:
            raise InputError(f"{config}: {error}") from error
    with_pooler = {names.ours: names.hugging_face for names in variable_names(shape.with_pooler(), task)}
    is_pooled = task["model"] in ("classifier", "multiple_choice")
    if is_pooled or with_pooler[_POOLER[0]].name in tensors.shapes:
        shape = shape.with_pooler()
    elif family == "bert" and model_kind(task) in (*_WITHOUT_POOLER, model_kind({"model": "encoder"})):
        shape = shape.replace(pooler="none")  # as `add_pooling_layer=False` makes it
    if family == "roberta" and is_pooled:  # whose code has made the encoder with a pooler, too
        ignored |= {f"roberta.pooler.dense.{name}" for name in ("weight", "bias")}
    stored = {names.ours: names.hugging_face for names in variable_names(shape, task)}
    return ForeignModel(
        tensors,
        shape,
        task,
        stored,
        vocabulary=None,  # that `with_tokenizer` finds
        is_ignored=ignored.__contains__,
        optional=_POOLER if model_kind(task) in _WITHOUT_POOLER else (),
    )


def _warn_of_pooling(file: Path) -> None:
    """Says how sentence-transformers pools where it is not by the mean, which is what embeddings are here."""
    if file.is_file():
        values = read_local_json(file)
        modes = [name.removeprefix("pooling_mode_") for name, value in values.items() if value is True]
        if "cls_token" in modes:
            logging.warning('%s pools the first token: pass pooling="first" to "feature-extraction"', file)
        elif "mean_tokens" not in modes:
            found = ", ".join(modes) or "nothing"
            logging.warning("%s pools by %s: here are mean and first alone", file, found)


def _newer(name: str) -> str:
    """The name of a tensor as newer files have it."""
    ending = ".".join(name.rsplit(".", 2)[-2:])
    return name.removesuffix(ending) + _OLDER_ENDINGS.get(ending, ending)


def _without_tied(tensors: CheckpointTensors, family: str) -> tuple[CheckpointTensors, set[str]]:
    """A checkpoint whose MLM head has the names that are read, and the tensors that repeat others.

    Raises:
      InputError: what should be tied differs.
    """
    # Files may repeat what is tied: the MLM head's output layer, and its bias.
    bias = head_names({"model": "pretrainer", "sentence_objective": "none"}, family)[-1].hugging_face.name
    layer = bias.removesuffix(".bias") + ("" if family == "distilbert" else ".decoder")
    tied = {f"{layer}.weight": f"{family}.embeddings.word_embeddings.weight", f"{layer}.bias": bias}
    repeated = {name for name, other in tied.items() if name != other}
    for name in repeated & tensors.shapes.keys():
        other = tied[name]
        if other not in tensors.shapes:
            tensors = tensors.renamed({other if old == name else old: old for old in tensors.shapes})
        elif not np.array_equal(tensors.read(name), tensors.read(other)):
            raise InputError(f"{tensors.origin}: {name} differs from {other}: the MLM head is tied")
    return tensors, repeated


def _weights(path: Path) -> Path:
    """The safetensors file, or the index of several, in a folder or at a path."""
    if path.is_dir():
        kinds = (WEIGHTS_FILE, WEIGHTS_INDEX_FILE, "*.safetensors", *(f"*{suffix}" for suffix in _PICKLES))
        path = next((found[0] for kind in kinds if (found := files_in(path, kind))), path / WEIGHTS_FILE)
    if path.suffix in _PICKLES:
        raise InputError(
            f"{path} is a pickle: opening it runs whatever code it holds, so it is not read. Where you trust "
            "it, let transformers write model.safetensors: from_pretrained(…).save_pretrained(…)"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: no checkpoint there")
    return path


def _task(task: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The task that the heads show, refined by config.json; InputError if that contradicts it."""
    architectures = values.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise InputError(f"architectures={architectures!r} is not a list of classes of transformers")
    if "num_labels" in task:
        if any(name.endswith("ForMultipleChoice") for name in architectures):
            choices = values.get("num_choices", 4)  # as RACE has
            check_type("num_choices", "int", choices)
            check_range("num_choices", choices, at_least=1)
            return {"model": "multiple_choice", "num_choices": choices}
        if any(name.endswith("ForTokenClassification") for name in architectures):
            words = values.get("words", PUNCTUATION_WORDS)  # as in the public sets that others train on
            check_choice("words", words, WORDS)
            task = {**task, "model": "token_classifier"}
            if words != SPACE_WORDS:
                task["words"] = words
        else:
            task |= _problem(values.get("problem_type"), task["num_labels"])
        if "threshold" in values:
            check_type("threshold", "float", values["threshold"])
            check_range("threshold", values["threshold"], at_least=0, at_most=1)
            task = {**task, "threshold": values["threshold"]}
        labels = _labels(values.get("id2label"), task["num_labels"])
        task = task if labels is None else {**task, "labels": labels}
        check_task(task)
        return task
    if task.get("sentence_objective", "none") != "none" and "sentence_objective" in values:
        check_choice("sentence_objective", values["sentence_objective"], ("sop", "nsp"))
        return {**task, "sentence_objective": values["sentence_objective"]}
    return task


def _problem(problem_type: Any, num_labels: int) -> dict[str, bool]:
    """What the logits of a classifier mean; InputError for regression of several numbers."""
    if problem_type is None:
        return {}
    check_choice("problem_type", problem_type, PROBLEM_TYPES)
    if problem_type == ANY_NUMBER:
        return {"multi_label": True}
    if (problem_type == REGRESSION) != (num_labels == 1):
        outputs = f"{num_labels} outputs" if num_labels > 1 else "1 output"
        raise InputError(
            f"problem_type={problem_type!r} with {outputs}: here one is regression, more are not"
        )
    return {}


def _labels(names: Any, num_labels: int) -> list[str] | None:
    """The names of labels in their order; None where they are only numbered."""
    if names is None:
        return None
    if not isinstance(names, Mapping):
        raise InputError(f"id2label={shorten(names)} is not an object from ids to labels")
    if set(names) != set(map(str, range(num_labels))):
        found = f"ids {', '.join(names)}" if names else "no ids"
        raise InputError(f"id2label has {found}: the head has 0 to {num_labels - 1}")
    for number, name in names.items():
        if isinstance(name, bool) or not isinstance(name, str | int) or not str(name).strip():
            raise InputError(f"id2label has {name!r} for {number}: labels are texts that are not empty")
    labels = [str(names[str(number)]) for number in range(num_labels)]
    if repeated := [label for label in labels if labels.count(label) > 1]:
        raise InputError(f"id2label has {repeated[0]!r} twice")
    return None if labels == [f"LABEL_{number}" for number in range(num_labels)] else labels


def _identity(size: int) -> dict[str, np.ndarray]:
    """A projection of the embeddings that changes nothing: transformers has one even where E = H."""
    return {f"{_PROJECTION}.weight": np.eye(size), f"{_PROJECTION}.bias": np.zeros(size)}


def write_hugging_face(
    model: Any,
    folder: Path,
    task: Mapping[str, Any],
    tokenizer: Mapping[str, bool],
    kind: str = SENTENCEPIECE,
    special: SpecialIds | None = None,
) -> None:
    """Writes a model as `from_pretrained` of transformers opens it.

    Args:
      model: one of ours.
      folder: where to; it exists.
      task: what task.json says.
      tokenizer: how text is normalised.
      kind: of the tokenizer.
      special: the ids of its special tokens; None: there is no vocabulary.
    Raises: as `hugging_face_config`; OSError if a file cannot be written.
    """
    config = model.config
    write_local_json(folder / HUGGING_FACE_CONFIG, hugging_face_config(config, task, special))
    shape = config.replace(project_embeddings=True) if config.family == "albert" else config
    names = {names.hugging_face.name: names for names in variable_names(shape, task_of(model))}
    variables = {variable.name.partition(":")[0]: variable for variable in model.variables}

    def value(name: str) -> np.ndarray:
        variable = variables.get(names[name].ours)
        if variable is None:
            return _identity(config.hidden_size)[name]
        return names[name].hugging_face.converted(np.asarray(variable.read_value()))

    shapes = {name: there.hugging_face.shape for name, there in names.items()}
    write_safetensors(folder / WEIGHTS_FILE, shapes, value)
    write_local_json(folder / TOKENIZER_CONFIG, tokenizer_config(kind, tokenizer, config))
