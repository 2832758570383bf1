"""The names and shapes of one variable in each implementation: the table of all conversions.

Google's names are ours behind `bert/`, but for the heads, which are outside that scope. TF Hub's TF 1
modules have Google's names; its TF 2 encoders, exported by TensorFlow Model Garden, others, and no heads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.checkpoints.layer_names import Layer, dense, norm, table
from albert_tf.checkpoints.models import MODELS
from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import BlockPath, sharing_plan

# Before the names of the encoder, not of the heads.
GOOGLE_SCOPE, HUGGING_FACE_SCOPE = "bert/", "albert."


_EMBEDDINGS = [
    Layer(f"embeddings/{name}", f"embeddings.{name}", hub, variables)
    for name, hub, variables in (
        ("word_embeddings", "word_embeddings/embeddings", table("V E")),
        ("token_type_embeddings", "type_embeddings/embeddings", table("T E")),
        ("position_embeddings", "position_embedding/embeddings", table("S E")),
        ("LayerNorm", "embeddings/layer_norm", norm("E")),
    )
]
_IN = "embedding_hidden_mapping_in"
_PROJECTION = Layer(f"encoder/{_IN}", f"encoder.{_IN}", "embedding_projection", dense("E", "H"))
_POOLER = Layer("pooler/dense", "pooler", "pooler_transform", dense("H", "H"))

# Of a block of any group.
_ATTENTION = [
    *(
        Layer(
            f"attention_1/self/{name}",
            f"attention.{name}",
            f"self_attention/{name}",
            dense("H", "H", hub_outputs="N D"),
        )
        for name in ("query", "key", "value")
    ),
    Layer(
        "attention_1/output/dense",
        "attention.dense",
        "self_attention/attention_output",
        dense("H", "H", hub_inputs="N D"),
    ),
    Layer("LayerNorm", "attention.LayerNorm", "self_attention_layer_norm", norm("H")),
]
_FEED_FORWARD = [
    Layer("ffn_1/intermediate/dense", "ffn", "intermediate", dense("H", "I")),
    Layer("ffn_1/intermediate/output/dense", "ffn_output", "output", dense("I", "H")),
    Layer("LayerNorm_1", "full_layer_layer_norm", "output_layer_norm", norm("H")),
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
    names = _names([*encoder, _POOLER], size, GOOGLE_SCOPE, HUGGING_FACE_SCOPE)
    return names + _names(MODELS[task["model"]].head(task), size)


def head_names(task: Mapping[str, Any]) -> list[Names]:
    """The names of the variables on top of the encoder, for a network of any shape."""
    return _names(MODELS[task["model"]].head(task), _sizes(AlbertConfig(), task))


def hub_letters() -> dict[str, tuple[str, ...]]:
    """The shape, in letters, of every variable of a TF Hub encoder, by its name there."""
    return {
        names.hub: names.letters
        for names in variable_names(AlbertConfig(), {"model": "encoder"})
        if names.hub
    }


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
        google_scope = layer.ours if layer.google is None else layer.google
        for variable in layer.variables:
            letters = tuple(variable.hub_shape.split())
            found.append(
                Names(
                    f"{layer.ours}/{variable.ours}".strip("/"),
                    google + f"{google_scope}/{variable.ours}".strip("/"),
                    f"{hugging_face}{layer.hugging_face}.{variable.hugging_face}",
                    None if layer.hub is None else f"{layer.hub}/{variable.ours}".strip("/"),
                    tuple(size[letter] for letter in variable.shape.split()),
                    tuple(size[letter] for letter in letters),
                    variable.ours == "kernel",
                    letters,
                )
            )
    return found
