"""The names of variables in the checkpoints of Google, Hugging Face and TF Hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import Variable
from albert_tf.runs.build_model import head_variables, model_variables

# Prefixes of the encoder's names; heads have none.
GOOGLE_SCOPE, HUGGING_FACE_SCOPE = "bert/", "albert."
_ENCODER_PARTS = ("embeddings/", "encoder/", "pooler/")


class _LayerPart(NamedTuple):
    """The names of a part of a layer. Google's BERT writes "/" for the "." of Hugging Face's."""

    albert: str
    bert: str  # RoBERTa, too
    distilbert: str


# By the names here, which are those of google-research/albert.
_LAYER = {
    ours: _LayerPart(*names)
    for ours, *names in (
        line.split()
        for line in """
attention_1/self/query          attention.query       attention.self.query       attention.q_lin
attention_1/self/key            attention.key         attention.self.key         attention.k_lin
attention_1/self/value          attention.value       attention.self.value       attention.v_lin
attention_1/output/dense        attention.dense       attention.output.dense     attention.out_lin
LayerNorm                       attention.LayerNorm   attention.output.LayerNorm sa_layer_norm
ffn_1/intermediate/dense        ffn                   intermediate.dense         ffn.lin1
ffn_1/intermediate/output/dense ffn_output            output.dense               ffn.lin2
LayerNorm_1                     full_layer_layer_norm output.LayerNorm           output_layer_norm
""".strip().splitlines()
    )
}
_IN_LAYER = re.compile(r"encoder/transformer/group_(\d+)/inner_group_(\d+)/(.+)")

# Parts outside the layers in Hugging Face's files, by family, unless their names differ only in "." for "/".
_HUGGING_FACE = {
    "albert": {
        "pooler/dense": "albert.pooler",
        "cls/predictions/transform/dense": "predictions.dense",
        "cls/predictions/transform/LayerNorm": "predictions.LayerNorm",
        "cls/predictions": "predictions",
        "cls/seq_relationship": "sop_classifier.classifier",
        "cls/squad": "qa_outputs",
    },
    "bert": {"cls/squad": "qa_outputs"},
    "roberta": {
        "cls/predictions/transform/dense": "lm_head.dense",
        "cls/predictions/transform/LayerNorm": "lm_head.layer_norm",
        "cls/predictions": "lm_head",
        "cls/squad": "qa_outputs",
    },
    "distilbert": {
        "pooler/dense": "pre_classifier",
        "cls/predictions/transform/dense": "vocab_transform",
        "cls/predictions/transform/LayerNorm": "vocab_layer_norm",
        "cls/predictions": "vocab_projector",
        "cls/squad": "qa_outputs",
    },
}
# RobertaForSequenceClassification has the pooler in its head.
_ROBERTA_CLASSIFIER = {"pooler/dense": "classifier.dense", "classifier": "classifier.out_proj"}
_TORCH_ATTRIBUTES = {"": "weight", "kernel": "weight", "gamma": "weight", "output_weights": "weight"}

# Parts in TF 2 modules of TF Hub, which are encoders; those of a layer without its scope.
_HUB = {
    "embeddings/word_embeddings": "word_embeddings",
    "embeddings/token_type_embeddings": "type_embeddings",
    "embeddings/position_embeddings": "position_embedding",
    "embeddings/LayerNorm": "embeddings/layer_norm",
    "encoder/embedding_hidden_mapping_in": "embedding_projection",
    "pooler/dense": "pooler_transform",
    "attention_1/self/query": "self_attention/query",
    "attention_1/self/key": "self_attention/key",
    "attention_1/self/value": "self_attention/value",
    "attention_1/output/dense": "self_attention/attention_output",
    "LayerNorm": "self_attention_layer_norm",
    "ffn_1/intermediate/dense": "intermediate",
    "ffn_1/intermediate/output/dense": "output",
    "LayerNorm_1": "output_layer_norm",
}


class VariableMap(NamedTuple):
    """A variable in the format of another implementation."""

    name: str
    shape: tuple[int, ...]
    shape_here: tuple[int, ...]
    is_transposed: bool = False

    def convert(self, value: np.ndarray) -> np.ndarray:
        """Converts a value from the other format to ours. For Google and Hugging Face also the reverse."""
        return value.T if self.is_transposed else value.reshape(self.shape_here)


# Function from a variable, the config, the family and the entry `model` of task.json to the variable in
# another format.
Translate = Callable[[Variable, AlbertConfig, str, str], VariableMap]


def _to_google(variable: Variable, config: AlbertConfig, family: str, model: str) -> VariableMap:
    part, name = variable.part, variable.name
    if part == "classifier" and model != "token_classifier":
        # run_classifier and run_race give their heads no scope. Here the head of a token classifier has one.
        name = variable.attribute
    elif (match := _IN_LAYER.fullmatch(part)) and family != "albert":
        bert = _LAYER[match[3]].bert.replace(".", "/")
        name = f"encoder/layer_{match[1]}/{bert}/{variable.attribute}"
    scope = GOOGLE_SCOPE if part.startswith(_ENCODER_PARTS) else ""
    return VariableMap(scope + name, variable.shape, variable.shape)


def _to_hugging_face(variable: Variable, config: AlbertConfig, family: str, model: str) -> VariableMap:
    is_kernel = variable.attribute == "kernel"  # PyTorch transposes it
    shape = variable.shape[::-1] if is_kernel else variable.shape
    part = _hugging_face_part(variable.part, family, model)
    name = f"{part}.{_TORCH_ATTRIBUTES.get(variable.attribute, 'bias')}"
    return VariableMap(name, shape, variable.shape, is_kernel)


def _hugging_face_part(part: str, family: str, model: str) -> str:
    """The name of a part of the network in Hugging Face's files."""
    if match := _IN_LAYER.fullmatch(part):
        group, inner, name = match.groups()
        albert, bert, distilbert = _LAYER[name]
        if family == "albert":
            return f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}.{albert}"
        if family == "distilbert":
            return f"distilbert.transformer.layer.{group}.{distilbert}"
        return f"{family}.encoder.layer.{group}.{bert}"
    has_pooler = (family, model) == ("roberta", "classifier")
    others = _HUGGING_FACE[family] | (_ROBERTA_CLASSIFIER if has_pooler else {})
    scope = f"{family}." if part.startswith(_ENCODER_PARTS) else ""
    return others.get(part, scope + part.replace("/", "."))


def _to_hub(variable: Variable, config: AlbertConfig, family: str, model: str) -> VariableMap:
    if match := _IN_LAYER.fullmatch(variable.part):
        layer = f"transformer/layer_{match[1]}" if config.sharing == "none" else "transformer"
        part = f"{layer}/{_HUB[match[3]]}"
    else:
        part = _HUB[variable.part]
    name = f"{part}/{variable.attribute or 'embeddings'}"
    shape = variable.shape
    # The heads have an axis of their own.
    heads = (config.num_attention_heads, config.hidden_size // config.num_attention_heads)
    if "/attention_1/self/" in variable.part:
        shape = (*shape[:-1], *heads)
    elif variable.part.endswith("/attention_1/output/dense") and variable.attribute == "kernel":
        shape = (*heads, shape[-1])
    return VariableMap(name, shape, variable.shape)


_TRANSLATIONS: dict[str, Translate] = {
    "google": _to_google,
    "hugging_face": _to_hugging_face,
    "hub": _to_hub,
}


def variable_map(
    form: str, config: AlbertConfig, task: Mapping[str, Any], family: str | None = None
) -> dict[str, VariableMap]:
    """The variables of a model in another format, by their names here.

    Args:
      form: "google", for google-research/albert, and google-research/bert if the family is another;
        "hugging_face"; or "hub", a TF 2 module of TF Hub, which is an encoder.
      config: architecture of the network.
      task: entries of task.json, as `task_of` returns them.
      family: family whose names the format gets: "albert", "bert", "roberta" or "distilbert". None:
        `config.family`. "hub" ignores it.

    >>> kernel = "encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/kernel"
    >>> task = {"model": "encoder"}
    >>> variable_map("google", AlbertConfig(), task, "bert")[kernel].name
    'bert/encoder/layer_0/intermediate/dense/kernel'
    >>> variable_map("hugging_face", AlbertConfig(), task)["pooler/dense/kernel"].name
    'albert.pooler.weight'
    >>> variable_map("hub", AlbertConfig(), task)[kernel].name
    'transformer/intermediate/kernel'
    """
    family, translate = family or config.family, _TRANSLATIONS[form]
    return {x.name: translate(x, config, family, task["model"]) for x in model_variables(config, task)}


def head_names(form: str, task: Mapping[str, Any], family: str = "albert") -> list[str]:
    """The names of the head's variables in another format; see `variable_map`."""
    translate = _TRANSLATIONS[form]
    return [translate(x, AlbertConfig(), family, task["model"]).name for x in head_variables(task)]
