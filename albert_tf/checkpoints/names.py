"""The names and shapes of one variable in each implementation: the table of all conversions.

Google's names are ours behind `bert/`, but for the heads, which are outside that scope. TF Hub's TF 1
modules have Google's names; its TF 2 encoders, exported by TensorFlow Model Garden, others, and no heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.model.sharing import BlockPath, sharing_plan

# Before the names of the encoder, not of the heads.
GOOGLE_SCOPE, HUGGING_FACE_SCOPE = "bert/", "albert."


class VariableEntry(NamedTuple):
    """One variable of a layer: its name in Hugging Face's models, its shapes in letters of `sizes`."""

    hugging_face: str
    shape: str
    hub_shape: str  # the same elements in the same order


class LayerEntry(NamedTuple):
    """A layer: its scope here, in Google's, Hugging Face's and Model Garden's models, and its variables."""

    ours: str
    google: str
    hugging_face: str
    hub: str | None
    variables: dict[str, VariableEntry]


def _dense(
    inputs: str, outputs: str, hub_inputs: str = "", hub_outputs: str = ""
) -> dict[str, VariableEntry]:
    hub_inputs, hub_outputs = hub_inputs or inputs, hub_outputs or outputs
    return {
        "kernel": VariableEntry("weight", f"{inputs} {outputs}", f"{hub_inputs} {hub_outputs}"),
        "bias": VariableEntry("bias", outputs, hub_outputs),
    }


def _norm(width: str) -> dict[str, VariableEntry]:
    return {"gamma": VariableEntry("weight", width, width), "beta": VariableEntry("bias", width, width)}


def _table(shape: str) -> dict[str, VariableEntry]:
    return {"": VariableEntry("weight", shape, shape)}


def _output(units: str) -> dict[str, VariableEntry]:
    return {
        "output_weights": VariableEntry("weight", f"{units} H", f"{units} H"),
        "output_bias": VariableEntry("bias", units, units),
    }


def _encoder(scope: str, hugging_face: str, hub: str, variables: dict[str, VariableEntry]) -> LayerEntry:
    return LayerEntry(scope, GOOGLE_SCOPE + scope, HUGGING_FACE_SCOPE + hugging_face, hub, variables)


def _head(
    scope: str, hugging_face: str, variables: dict[str, VariableEntry], google: str | None = None
) -> LayerEntry:
    return LayerEntry(scope, scope if google is None else google, hugging_face, None, variables)


_GROUP = "encoder/transformer/group_{group}/inner_group_{inner}"
_HF_GROUP = "encoder.albert_layer_groups.{group}.albert_layers.{inner}"


def _embedding(name: str, hub: str, variables: dict[str, VariableEntry]) -> LayerEntry:
    return _encoder(f"embeddings/{name}", f"embeddings.{name}", hub, variables)


def _block(ours: str, hugging_face: str, hub: str, variables: dict[str, VariableEntry]) -> LayerEntry:
    """A layer of a block of any group."""
    return _encoder(f"{_GROUP}/{ours}", f"{_HF_GROUP}.{hugging_face}", f"transformer/{hub}", variables)


EMBEDDINGS = (
    _embedding("word_embeddings", "word_embeddings/embeddings", _table("V E")),
    _embedding("token_type_embeddings", "type_embeddings/embeddings", _table("T E")),
    _embedding("position_embeddings", "position_embedding/embeddings", _table("S E")),
    _embedding("LayerNorm", "embeddings/layer_norm", _norm("E")),
)
_PROJECTION = "embedding_hidden_mapping_in"
PROJECTION = (
    _encoder(f"encoder/{_PROJECTION}", f"encoder.{_PROJECTION}", "embedding_projection", _dense("E", "H")),
)
ATTENTION = (
    *(
        _block(
            f"attention_1/self/{name}",
            f"attention.{name}",
            f"self_attention/{name}",
            _dense("H", "H", hub_outputs="N D"),
        )
        for name in ("query", "key", "value")
    ),
    _block(
        "attention_1/output/dense",
        "attention.dense",
        "self_attention/attention_output",
        _dense("H", "H", hub_inputs="N D"),
    ),
    _block("LayerNorm", "attention.LayerNorm", "self_attention_layer_norm", _norm("H")),
)
FEED_FORWARD = (
    _block("ffn_1/intermediate/dense", "ffn", "intermediate", _dense("H", "I")),
    _block("ffn_1/intermediate/output/dense", "ffn_output", "output", _dense("I", "H")),
    _block("LayerNorm_1", "full_layer_layer_norm", "output_layer_norm", _norm("H")),
)
POOLER = (_encoder("pooler/dense", "pooler", "pooler_transform", _dense("H", "H")),)
MLM = (
    _head("cls/predictions/transform/dense", "predictions.dense", _dense("H", "E")),
    _head("cls/predictions/transform/LayerNorm", "predictions.LayerNorm", _norm("E")),
    _head("cls/predictions", "predictions", {"output_bias": VariableEntry("bias", "V", "V")}),
)
SENTENCE = (_head("cls/seq_relationship", "sop_classifier.classifier", _output("2")),)
SPAN = (_head("cls/squad", "qa_outputs", _output("2")),)
# run_squad_v2's. In transformers XLNet has such a head, ALBERT does not.
ANSWERABLE_SPAN = (
    _head("start_logits/dense", "start_logits.dense", _dense("H", "1")),
    _head("end_logits/dense_0", "end_logits.dense_0", _dense("2H", "H")),
    _head("end_logits/LayerNorm", "end_logits.LayerNorm", _norm("H")),
    _head("end_logits/dense_1", "end_logits.dense_1", _dense("H", "1")),
    _head("answer_class/dense_0", "answer_class.dense_0", _dense("2H", "H")),
    _head("answer_class/dense_1", "answer_class.dense_1", {"kernel": VariableEntry("weight", "H 1", "H 1")}),
)
# google-research/albert's run_classifier and run_race give this one no scope.
CLASSIFIER = (_head("classifier", "classifier", _output("K"), google=""),)
CHOICE = (_head("classifier", "classifier", _output("1"), google=""),)
# It classifies no tokens: the scope is ours, and tells this one from that of run_classifier.
TOKENS = (_head("classifier", "classifier", _output("K")),)


class Names(NamedTuple):
    """Names of one variable, its shape here and in a TF Hub encoder; True if PyTorch transposes it."""

    ours: str
    google: str
    hugging_face: str
    hub: str | None
    shape: tuple[int, ...]
    hub_shape: tuple[int, ...]
    transposed: bool

    @property
    def hugging_face_shape(self) -> tuple[int, ...]:
        """The shape in PyTorch."""
        return self.shape[::-1] if self.transposed else self.shape

    def to_hugging_face(self, value: np.ndarray) -> np.ndarray:
        """Our value, or Google's, as PyTorch holds it; its own inverse."""
        return value.T if self.transposed else value

    def from_hub(self, value: np.ndarray) -> np.ndarray:
        """Our value, where a TF Hub encoder keeps the attention heads apart."""
        return value.reshape(self.shape)


def variable_names(config: AlbertConfig, task: Mapping[str, Any]) -> list[Names]:
    """The names and shapes of every variable of a model.

    Args:
      config: the network's shape.
      task: what `task_of` says of the model.
    Returns:
      One entry a variable.

    >>> names = variable_names(AlbertConfig(), {"model": "encoder"})
    >>> names[-2].google, names[-2].hugging_face, names[-2].shape
    ('bert/pooler/dense/kernel', 'albert.pooler.weight', (768, 768))
    """
    plan = sharing_plan(config)
    layers = [*EMBEDDINGS, *(PROJECTION if config.has_projection else ())]
    for path in dict.fromkeys(pair.attention for pair in plan):
        layers += [_at(path, layer) for layer in ATTENTION]
    for path in dict.fromkeys(pair.feed_forward for pair in plan):
        layers += [_at(path, layer) for layer in FEED_FORWARD]
    layers += [*POOLER, *heads(task)]
    size = sizes(config, task)
    return [names for layer in layers for names in _names(layer, size)]


def heads(task: Mapping[str, Any]) -> tuple[LayerEntry, ...]:
    """The layers that a task.json says are on top of the encoder."""
    return {
        "encoder": (),
        "pretrainer": MLM + (() if task.get("sentence_objective") == "none" else SENTENCE),
        "classifier": CLASSIFIER,
        "token_classifier": TOKENS,
        "span_labeler": ANSWERABLE_SPAN if task.get("answerability") else SPAN,
        "multiple_choice": CHOICE,
    }[task["model"]]


def head_names(task: Mapping[str, Any]) -> list[Names]:
    """The names of the variables on top of the encoder, for a network of any shape."""
    size = sizes(AlbertConfig(), task)
    return [names for layer in heads(task) for names in _names(layer, size)]


def sizes(config: AlbertConfig, task: Mapping[str, Any]) -> dict[str, int]:
    """Sizes that the letters of the shapes stand for."""
    return {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "S": config.max_position_embeddings,
        "T": config.type_vocab_size,
        "H": config.hidden_size,
        "I": config.intermediate_size,
        "N": config.num_attention_heads,
        "D": config.hidden_size // config.num_attention_heads,
        "K": task.get("num_labels", 0),
        "1": 1,
        "2": 2,
        "2H": 2 * config.hidden_size,
    }


def hub_letters() -> dict[str, tuple[str, ...]]:
    """The shape, in letters, of every variable of a TF Hub encoder, by its name there."""
    layers = (*EMBEDDINGS, *PROJECTION, *ATTENTION, *FEED_FORWARD, *POOLER)
    return {
        f"{layer.hub}/{variable}".removesuffix("/"): tuple(entry.hub_shape.split())
        for layer in layers
        for variable, entry in layer.variables.items()
    }


def _at(path: BlockPath, layer: LayerEntry) -> LayerEntry:
    place = path._asdict()
    return layer._replace(
        ours=layer.ours.format(**place),
        google=layer.google.format(**place),
        hugging_face=layer.hugging_face.format(**place),
    )


def _names(layer: LayerEntry, size: Mapping[str, int]) -> list[Names]:
    found = []
    for variable, entry in layer.variables.items():
        shape, hub_shape = (
            tuple(size[letter] for letter in letters.split()) for letters in (entry.shape, entry.hub_shape)
        )
        found.append(
            Names(
                f"{layer.ours}/{variable}".removesuffix("/"),
                f"{layer.google}/{variable}".strip("/"),
                f"{layer.hugging_face}.{entry.hugging_face}",
                None if layer.hub is None else f"{layer.hub}/{variable}".removesuffix("/"),
                shape,
                hub_shape,
                variable == "kernel",
            )
        )
    return found
