"""The names and shapes of one variable in each implementation: the table of all conversions.

Google's names are ours behind `bert/`, but for the heads, which are outside that scope. TF Hub's TF 1
modules have Google's names; its TF 2 encoders, exported by TensorFlow Model Garden, others, and no heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import BlockPath, sharing_plan

# Before the names of the encoder, not of the heads.
GOOGLE_SCOPE, HUGGING_FACE_SCOPE = "bert/", "albert."


class Variable(NamedTuple):
    """A variable of a layer: its names here and in Hugging Face's models, its shapes in letters."""

    ours: str
    hugging_face: str
    shape: str
    hub_shape: str  # the same elements in the same order


class Layer(NamedTuple):
    """A layer: its scope here, in Hugging Face's and in Model Garden's models, and its variables."""

    ours: str
    hugging_face: str
    hub: str | None
    variables: list[Variable]


def _dense(inputs: str, outputs: str, hub_inputs: str = "", hub_outputs: str = "") -> list[Variable]:
    hub_shape = f"{hub_inputs or inputs} {hub_outputs or outputs}"
    kernel = Variable("kernel", "weight", f"{inputs} {outputs}", hub_shape)
    return [kernel, Variable("bias", "bias", outputs, hub_outputs or outputs)]


def _norm(width: str) -> list[Variable]:
    return [Variable("gamma", "weight", width, width), Variable("beta", "bias", width, width)]


def _table(shape: str) -> list[Variable]:
    return [Variable("", "weight", shape, shape)]


def _output(units: str) -> list[Variable]:
    weights = Variable("output_weights", "weight", f"{units} H", f"{units} H")
    return [weights, Variable("output_bias", "bias", units, units)]


_EMBEDDINGS = [
    Layer(f"embeddings/{name}", f"embeddings.{name}", hub, variables)
    for name, hub, variables in (
        ("word_embeddings", "word_embeddings/embeddings", _table("V E")),
        ("token_type_embeddings", "type_embeddings/embeddings", _table("T E")),
        ("position_embeddings", "position_embedding/embeddings", _table("S E")),
        ("LayerNorm", "embeddings/layer_norm", _norm("E")),
    )
]
_IN = "embedding_hidden_mapping_in"
_PROJECTION = Layer(f"encoder/{_IN}", f"encoder.{_IN}", "embedding_projection", _dense("E", "H"))
_POOLER = Layer("pooler/dense", "pooler", "pooler_transform", _dense("H", "H"))

# Of a block of any group.
_ATTENTION = [
    *(
        Layer(
            f"attention_1/self/{name}",
            f"attention.{name}",
            f"self_attention/{name}",
            _dense("H", "H", hub_outputs="N D"),
        )
        for name in ("query", "key", "value")
    ),
    Layer(
        "attention_1/output/dense",
        "attention.dense",
        "self_attention/attention_output",
        _dense("H", "H", hub_inputs="N D"),
    ),
    Layer("LayerNorm", "attention.LayerNorm", "self_attention_layer_norm", _norm("H")),
]
_FEED_FORWARD = [
    Layer("ffn_1/intermediate/dense", "ffn", "intermediate", _dense("H", "I")),
    Layer("ffn_1/intermediate/output/dense", "ffn_output", "output", _dense("I", "H")),
    Layer("LayerNorm_1", "full_layer_layer_norm", "output_layer_norm", _norm("H")),
]

_MLM = [
    Layer("cls/predictions/transform/dense", "predictions.dense", None, _dense("H", "E")),
    Layer("cls/predictions/transform/LayerNorm", "predictions.LayerNorm", None, _norm("E")),
    Layer("cls/predictions", "predictions", None, [Variable("output_bias", "bias", "V", "V")]),
]
_SENTENCE = [Layer("cls/seq_relationship", "sop_classifier.classifier", None, _output("2"))]
_SPAN = [Layer("cls/squad", "qa_outputs", None, _output("2"))]
# run_squad_v2's. In transformers XLNet has such a head, ALBERT does not.
_ANSWERABLE_SPAN = [
    Layer(f"{scope}/{layer}", f"{scope}.{layer}", None, variables)
    for scope, layer, variables in (
        ("start_logits", "dense", _dense("H", "1")),
        ("end_logits", "dense_0", _dense("2H", "H")),
        ("end_logits", "LayerNorm", _norm("H")),
        ("end_logits", "dense_1", _dense("H", "1")),
        ("answer_class", "dense_0", _dense("2H", "H")),
        ("answer_class", "dense_1", _dense("H", "1")[:1]),
    )
]


class Names(NamedTuple):
    """Names of one variable, its shape here and in a TF Hub encoder; True if PyTorch transposes it."""

    ours: str
    google: str
    hugging_face: str
    hub: str | None
    shape: tuple[int, ...]
    hub_shape: tuple[int, ...]
    transposed: bool
    letters: tuple[str, ...]  # of hub_shape

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
    encoder = [*_EMBEDDINGS, *([_PROJECTION] if config.has_projection else [])]
    for path in dict.fromkeys(pair.attention for pair in plan):
        encoder += _in_group(path, _ATTENTION)
    for path in dict.fromkeys(pair.feed_forward for pair in plan):
        encoder += _in_group(path, _FEED_FORWARD)
    size = _sizes(config, task)
    return [*_names([*encoder, _POOLER], size, GOOGLE_SCOPE, HUGGING_FACE_SCOPE), *_head_names(task, size)]


def head_names(task: Mapping[str, Any]) -> list[Names]:
    """The names of the variables on top of the encoder, for a network of any shape."""
    return _head_names(task, _sizes(AlbertConfig(), task))


def hub_letters() -> dict[str, tuple[str, ...]]:
    """The shape, in letters, of every variable of a TF Hub encoder, by its name there."""
    return {
        names.hub: names.letters
        for names in variable_names(AlbertConfig(), {"model": "encoder"})
        if names.hub
    }


def _head_names(task: Mapping[str, Any], size: Mapping[str, int]) -> list[Names]:
    model = task["model"]
    if model in ("classifier", "token_classifier", "multiple_choice"):
        layers = [
            Layer("classifier", "classifier", None, _output("1" if model == "multiple_choice" else "K"))
        ]
        names = _names(layers, size)
        if model == "token_classifier":  # the scope is ours, and tells it from the head of run_classifier
            return names
        # google-research/albert's run_classifier and run_race give this one no scope.
        return [each._replace(google=each.google.removeprefix("classifier/")) for each in names]
    layers = {
        "encoder": [],
        "pretrainer": _MLM + ([] if task.get("sentence_objective") == "none" else _SENTENCE),
        "span_labeler": _ANSWERABLE_SPAN if task.get("answerability") else _SPAN,
    }[model]
    return _names(layers, size)


def _sizes(config: AlbertConfig, task: Mapping[str, Any]) -> dict[str, int]:
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


def _in_group(path: BlockPath, layers: Iterable[Layer]) -> list[Layer]:
    """The layers of a block of a certain group."""
    hugging_face = f"encoder.albert_layer_groups.{path.group}.albert_layers.{path.inner}"
    return [
        layer._replace(
            ours=f"{path.scope()}/{layer.ours}",
            hugging_face=f"{hugging_face}.{layer.hugging_face}",
            hub=f"transformer/{layer.hub}",
        )
        for layer in layers
    ]


def _names(
    layers: Iterable[Layer], size: Mapping[str, int], google: str = "", hugging_face: str = ""
) -> list[Names]:
    """The names of the variables of layers, which Google and Hugging Face have in a further scope."""
    found = []
    for layer in layers:
        for variable in layer.variables:
            ours = f"{layer.ours}/{variable.ours}".removesuffix("/")
            letters = tuple(variable.hub_shape.split())
            found.append(
                Names(
                    ours,
                    google + ours,
                    f"{hugging_face}{layer.hugging_face}.{variable.hugging_face}",
                    None if layer.hub is None else f"{layer.hub}/{variable.ours}".removesuffix("/"),
                    tuple(size[letter] for letter in variable.shape.split()),
                    tuple(size[letter] for letter in letters),
                    variable.ours == "kernel",
                    letters,
                )
            )
    return found
