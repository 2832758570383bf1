"""Folders of Hugging Face's transformers, in and out: config.json, safetensors, vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.checkpoints.models import task_of
from albert_tf.checkpoints.names import HUGGING_FACE_SCOPE, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.config_keys import HUGGING_FACE_ACTIVATIONS
from albert_tf.conversion.locations import files_in, find_vocabulary, only
from albert_tf.conversion.safetensors import open_safetensors, write_safetensors
from albert_tf.conversion.transfer import (
    Source,
    check_groups,
    find_task,
    whole_layers,
    with_usual_names,
)
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import read_json, write_json

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
VOCABULARY, TOKENIZER = "spiece.model", "tokenizer_config.json"

# Of two names for the same the first one.
ACTIVATIONS = {ours: theirs for theirs, ours in reversed(HUGGING_FACE_ACTIVATIONS.items())}
ARCHITECTURES = {
    "encoder": "AlbertModel",
    "pretrainer": "AlbertForPreTraining",
    "classifier": "AlbertForSequenceClassification",
    "token_classifier": "AlbertForTokenClassification",
    "span_labeler": "AlbertForQuestionAnswering",
    "multiple_choice": "AlbertForMultipleChoice",
}
_MLM_ALONE = "AlbertForMaskedLM"
_WITHOUT_POOLER = (_MLM_ALONE, ARCHITECTURES["token_classifier"], ARCHITECTURES["span_labeler"])
_POOLER = ("pooler/dense/kernel", "pooler/dense/bias")

_PICKLES = (".bin", ".pt", ".pth", ".ckpt")

_PROJECTION = f"{HUGGING_FACE_SCOPE}encoder.embedding_hidden_mapping_in"
# Older files repeat what is tied, and hold a table of the positions 0, 1, 2, …
_TIED = {
    "predictions.decoder.weight": f"{HUGGING_FACE_SCOPE}embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}
_BUFFER = f"{HUGGING_FACE_SCOPE}embeddings.position_ids"


def hugging_face_source(path: Path, config: Path | None, partial: bool) -> Source:
    """The weights in a folder of transformers, or one of its files with weights.

    Raises:
      InputError: the config describes another network, or one that this package does not have.
    """
    folder = path if path.is_dir() else path.parent
    tensors = open_safetensors(_weights(path))
    config = config or only(folder, CONFIG)
    values, shape = read_json(config), AlbertConfig.from_json_file(config)
    tensors = with_usual_names(tensors, HUGGING_FACE_SCOPE, "embeddings.word_embeddings.weight")
    for name, other in _TIED.items():
        if name in tensors.shapes and other not in tensors.shapes:
            tensors = tensors.renamed({other if old == name else old: old for old in tensors.shapes})
        elif name in tensors.shapes and not np.array_equal(tensors.read(name), tensors.read(other)):
            raise InputError(f"{tensors.origin}: {name} differs from {other}: ALBERT's MLM head is tied")
    ignored = {*_TIED, _BUFFER}
    identity = _identity(shape.hidden_size) if shape.embedding_size == shape.hidden_size else {}
    if identity and all(
        name in tensors.shapes and np.array_equal(tensors.read(name), value)
        for name, value in identity.items()
    ):
        shape = shape.replace(project_embeddings=None)
        ignored |= identity.keys()
    check_groups(shape, _group)
    task = {"model": "encoder"} if partial else _task(find_task(tensors, "hugging_face"), values)
    stored = {names.ours: names.hugging_face for names in variable_names(shape, task)}
    return Source(
        tensors,
        shape,
        task,
        stored,
        find_vocabulary(folder),
        _tokenizer(folder),
        is_ignored=ignored.__contains__,
        optional=_POOLER if _class_of(task) in _WITHOUT_POOLER else (),
    )


def _weights(path: Path) -> Path:
    """The safetensors file, or the index of several, in a folder or at a path."""
    if path.is_dir():
        kinds = (WEIGHTS, INDEX, "*.safetensors", *(f"*{suffix}" for suffix in _PICKLES))
        path = next((found[0] for kind in kinds if (found := files_in(path, kind))), path / WEIGHTS)
    if path.suffix in _PICKLES:
        raise InputError(
            f"{path} is a pickle: opening it runs whatever code it holds, so it is not read. Where you trust "
            "it, let transformers write model.safetensors: from_pretrained(…).save_pretrained(…)"
        )
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: no checkpoint there")
    return path


def _group(layer: int, layers: int, groups: int) -> int:
    return int(layer / (layers / groups))


def _class_of(task: Mapping[str, Any]) -> str:
    """The class of transformers for the model of a task.json."""
    return _MLM_ALONE if task.get("sentence_objective") == "none" else ARCHITECTURES[task["model"]]


def _task(task: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The task that the heads show, refined by config.json."""
    architectures = values.get("architectures") or []
    if task["model"] == "classifier":
        if ARCHITECTURES["multiple_choice"] in architectures:
            return {"model": "multiple_choice", "num_choices": values.get("num_choices", 4)}  # as RACE has
        if ARCHITECTURES["token_classifier"] in architectures:
            task = {**task, "model": "token_classifier"}
        numbers = range(task["num_labels"])
        names = values.get("id2label") or {}
        labels = [names.get(str(number), f"LABEL_{number}") for number in numbers]
        if labels != [f"LABEL_{number}" for number in numbers]:
            return {**task, "labels": labels}
    if task.get("sentence_objective") == "sop" and values.get("sentence_objective") == "nsp":
        return {**task, "sentence_objective": "nsp"}
    return task


def _identity(size: int) -> dict[str, np.ndarray]:
    """A projection of the embeddings that changes nothing: transformers has one even where E = H."""
    return {f"{_PROJECTION}.weight": np.eye(size), f"{_PROJECTION}.bias": np.zeros(size)}


def _tokenizer(folder: Path) -> dict[str, bool] | None:
    """Tokenizer settings in the tokenizer_config.json of a folder."""
    path = folder / TOKENIZER
    if not path.exists():
        return None
    values = read_json(path)
    return {
        "lowercase": bool(values.get("do_lower_case", True)),
        "strip_accents": not values.get("keep_accents", False),
    }


def hugging_face_config(config: AlbertConfig, task: Mapping[str, Any]) -> dict[str, Any]:
    """The content of config.json, by a task.json; InputError if transformers cannot express this network."""
    if task.get("answerability"):
        raise InputError("answerability=True: transformers' AlbertForQuestionAnswering has no answer class")
    values = whole_layers(config, _group).to_dict()
    for key in ("sharing", "project_embeddings"):
        del values[key]
    values |= {
        "model_type": "albert",
        "architectures": [_class_of(task)],
        "hidden_act": ACTIVATIONS[config.hidden_act],
        "dtype": "float32",
        "tie_word_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }
    if task["model"] in ("classifier", "token_classifier"):
        names = task.get("labels") or [f"LABEL_{i}" for i in range(task["num_labels"])]
        values["id2label"] = {str(i): name for i, name in enumerate(names)}
        values["label2id"] = {name: i for i, name in enumerate(names)}
    values |= {key: task[key] for key in ("num_choices", "sentence_objective") if key in task}
    return values


def write_hugging_face(
    model: Any, folder: Path, task: Mapping[str, Any], tokenizer: Mapping[str, bool]
) -> None:
    """Writes a model as `from_pretrained` of transformers opens it.

    Args:
      model: one of ours.
      folder: where to; it exists.
      task: what task.json says.
      tokenizer: how text is normalised.
    Raises: as `hugging_face_config`; OSError if a file cannot be written.
    """
    write_json(folder / CONFIG, hugging_face_config(model.config, task))
    names = variable_names(model.config.replace(project_embeddings=True), task_of(model))
    ours = {there.hugging_face.name: there.ours for there in names}
    stored = {there.hugging_face.name: there.hugging_face for there in names}
    variables = {variable.name.partition(":")[0]: variable for variable in model.variables}

    def value(name: str) -> np.ndarray:
        if ours[name] not in variables:
            return _identity(model.config.hidden_size)[name]
        return stored[name].converted(np.asarray(variables[ours[name]].read_value()))

    write_safetensors(folder / WEIGHTS, {name: there.shape for name, there in stored.items()}, value)
    values = {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": tokenizer["lowercase"],
        "keep_accents": not tokenizer["strip_accents"],
        "remove_space": True,
        "model_max_length": model.config.max_position_embeddings,
    }
    write_json(folder / TOKENIZER, values)
