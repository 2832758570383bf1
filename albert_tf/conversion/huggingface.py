"""Folders of Hugging Face's transformers, in and out: config.json, safetensors, vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from albert_tf.checkpoints.models import task_of
from albert_tf.checkpoints.names import HUGGING_FACE_SCOPE, Names, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.config_keys import HUGGING_FACE_ACTIVATIONS
from albert_tf.conversion.grouping import grouping_problems, whole_layers
from albert_tf.conversion.safetensors import write_safetensors
from albert_tf.conversion.transfer import Prefix, Source, Tensors, Wanted, find_prefix, find_task
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import read_json, write_json

CONFIG, WEIGHTS, INDEX, VOCABULARY, TOKENIZER = (
    "config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "spiece.model",
    "tokenizer_config.json",
)

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
RACE_CHOICES = 4

_PROJECTION = "encoder/embedding_hidden_mapping_in"
# Older files repeat what is tied, and hold a table of the positions 0, 1, 2, …
_TIED = {
    "predictions.decoder.weight": f"{HUGGING_FACE_SCOPE}embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}
_BUFFER = f"{HUGGING_FACE_SCOPE}embeddings.position_ids"


def hugging_face_source(
    tensors: Tensors, config: Path, partial: bool, vocabulary: Path | None, folder: Path
) -> Source:
    """The weights in a folder of transformers.

    Args:
      tensors: the weights.
      config: config.json, whose `architectures` tells multiple choice from classification.
      partial: True to read the encoder alone.
      vocabulary: found in the folder.
      folder: where tokenizer_config.json is, perhaps.
    Returns:
      What to compare and to read. The pooler may be missing, since AlbertForQuestionAnswering,
      AlbertForTokenClassification and AlbertForMaskedLM have none.
    Raises:
      ValueError: the config describes another network, or one that this package does not have.
    """
    values, shape = read_json(config), AlbertConfig.from_json_file(config)
    prefix = find_prefix(tensors, HUGGING_FACE_SCOPE, "embeddings.word_embeddings.weight")
    task = {"model": "encoder"} if partial else _task(find_task(tensors, prefix, "hugging_face"), values)
    tied = {prefix.apply(a, tensors.shapes): prefix.apply(b, tensors.shapes) for a, b in _TIED.items()}
    _check_tied(tensors, tied)
    shape, identity = _without_identity(tensors, prefix, shape)
    has_no_pooler = (
        task["model"] in ("span_labeler", "token_classifier") or task.get("sentence_objective") == "none"
    )
    ignored = {*tied, *identity, prefix.apply(_BUFFER, tensors.shapes)}
    instead = {there: name for name, there in tied.items() if there not in tensors.shapes}
    wanted = {}
    for names in variable_names(shape, task):
        name = prefix.apply(names.hugging_face, tensors.shapes)
        wanted[names.ours] = Wanted(
            instead.get(name, name) if instead.get(name) in tensors.shapes else name,
            names.hugging_face_shape,
            names.to_hugging_face,
            optional=has_no_pooler and names.ours.startswith("pooler/"),
        )
    return Source(
        tensors,
        shape,
        task,
        wanted,
        ignored.__contains__,
        vocabulary,
        _tokenizer(folder),
        grouping_problems(shape, _group),
    )


def _group(layer: int, layers: int, groups: int) -> int:
    return int(layer / (layers / groups))


def _task(task: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The task that the heads show, refined by config.json."""
    architectures = values.get("architectures")
    if not isinstance(architectures, list):
        architectures = []
    if task["model"] == "classifier":
        if "AlbertForMultipleChoice" in architectures:
            return {"model": "multiple_choice", "num_choices": values.get("num_choices", RACE_CHOICES)}
        if "AlbertForTokenClassification" in architectures:
            task = {**task, "model": "token_classifier"}
        labels = values.get("id2label")
        if isinstance(labels, dict) and labels.keys() == {str(i) for i in range(task["num_labels"])}:
            names = [labels[str(i)] for i in range(task["num_labels"])]
            if names != [f"LABEL_{i}" for i in range(len(names))]:
                return {**task, "labels": names}
    if task.get("sentence_objective") == "sop" and values.get("sentence_objective") == "nsp":
        return {**task, "sentence_objective": "nsp"}
    return task


def _check_tied(tensors: Tensors, tied: Mapping[str, str]) -> None:
    """ValueError where a repeated tensor differs from what it repeats."""
    for name, other in tied.items():
        if {name, other} <= tensors.shapes.keys():
            same = tensors.shapes[name] == tensors.shapes[other]
            if not (same and np.array_equal(tensors.read(name), tensors.read(other))):
                raise InputError(f"{tensors.origin}: {name} differs from {other}: ALBERT's MLM head is tied")


def _without_identity(
    tensors: Tensors, prefix: Prefix, config: AlbertConfig
) -> tuple[AlbertConfig, tuple[str, ...]]:
    """The config without a projection from E to H = E that changes nothing, and that projection's names."""
    scope = prefix.apply(f"{HUGGING_FACE_SCOPE}encoder.embedding_hidden_mapping_in", tensors.shapes)
    weight, bias, size = f"{scope}.weight", f"{scope}.bias", config.hidden_size
    if config.embedding_size != size or tensors.shapes.get(weight) != (size, size):
        return config, ()
    if tensors.shapes.get(bias) != (size,) or np.any(tensors.read(bias)):
        return config, ()
    if not np.array_equal(tensors.read(weight), np.eye(size)):
        return config, ()
    return config.replace(project_embeddings=None), (weight, bias)


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
    """The content of config.json.

    Args:
      config: the network's shape.
      task: what task.json says.
    Raises:
      ValueError: transformers cannot express this network.
    """
    grouped = whole_layers(config)
    problems = grouping_problems(grouped, _group)
    if task.get("answerability"):
        problems.append("its AlbertForQuestionAnswering has no answer class")
    if problems:
        raise InputError(f"transformers cannot express this network: {'; '.join(problems)}")
    values = grouped.to_dict()
    for key in ("sharing", "project_embeddings"):
        del values[key]
    values |= {
        "model_type": "albert",
        "architectures": [ARCHITECTURES[task["model"]]],
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
    if task["model"] == "multiple_choice":
        values["num_choices"] = task["num_choices"]
    if task["model"] == "pretrainer":
        values["sentence_objective"] = task["sentence_objective"]
        if task["sentence_objective"] == "none":
            values["architectures"] = ["AlbertForMaskedLM"]
    return values


def write_hugging_face(
    model: Any, folder: Path, task: Mapping[str, Any], tokenizer: Mapping[str, bool] | None
) -> None:
    """Writes a model as `from_pretrained` of transformers opens it.

    Args:
      model: one of ours.
      folder: where to; it exists.
      task: what task.json says.
      tokenizer: how text is normalised; None where there is no vocabulary.
    Raises:
      ValueError: transformers cannot express this network.
      OSError: a file cannot be written.
    """
    write_json(folder / CONFIG, hugging_face_config(model.config, task))
    # transformers projects the embeddings even where E = H; there it is given a projection that does nothing.
    all_names = variable_names(model.config.replace(project_embeddings=True), task_of(model))
    names = {name.hugging_face: name for name in all_names}
    variables = {variable.name.partition(":")[0]: variable for variable in model.variables}

    def value(name: Names) -> np.ndarray:
        if name.ours in variables:
            return name.to_hugging_face(np.asarray(variables[name.ours].read_value()))
        size = model.config.hidden_size
        return {f"{_PROJECTION}/kernel": np.eye(size), f"{_PROJECTION}/bias": np.zeros(size)}[name.ours]

    shapes = {key: name.hugging_face_shape for key, name in names.items()}
    write_safetensors(folder / WEIGHTS, shapes, lambda key: value(names[key]))
    if tokenizer is not None:
        write_json(folder / TOKENIZER, _tokenizer_config(model.config, tokenizer))


def _tokenizer_config(config: AlbertConfig, tokenizer: Mapping[str, bool]) -> dict[str, Any]:
    return {
        "tokenizer_class": "AlbertTokenizer",
        "do_lower_case": tokenizer["lowercase"],
        "keep_accents": not tokenizer["strip_accents"],
        "remove_space": True,
        "model_max_length": config.max_position_embeddings,
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "[MASK]",
    }
