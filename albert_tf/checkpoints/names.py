"""The names of one variable in each implementation: the table of all conversions.

Google's names are ours behind `bert/`, but for the heads, which are outside that scope and keep their names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.model.sharing import BlockPath, sharing_plan

# PyTorch's Linear holds [out, in], ours [in, out]; its LayerNorm says weight where ours says gamma.
_DENSE = {"kernel": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias"}
_TABLE = {"": "weight"}
_BIAS = {"": "bias"}

_GROUP = "encoder/transformer/group_{group}/inner_group_{inner}"
_HF_GROUP = "albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"


class Scope(NamedTuple):
    """A layer's variables: our scope, Hugging Face's, and the names of the variables within them."""

    ours: str
    hugging_face: str
    variables: dict[str, str]


EMBEDDINGS = (
    Scope("embeddings/word_embeddings", "albert.embeddings.word_embeddings", _TABLE),
    Scope("embeddings/token_type_embeddings", "albert.embeddings.token_type_embeddings", _TABLE),
    Scope("embeddings/position_embeddings", "albert.embeddings.position_embeddings", _TABLE),
    Scope("embeddings/LayerNorm", "albert.embeddings.LayerNorm", _NORM),
)
PROJECTION = (
    Scope("encoder/embedding_hidden_mapping_in", "albert.encoder.embedding_hidden_mapping_in", _DENSE),
)
ATTENTION = (
    Scope(f"{_GROUP}/attention_1/self/query", f"{_HF_GROUP}.attention.query", _DENSE),
    Scope(f"{_GROUP}/attention_1/self/key", f"{_HF_GROUP}.attention.key", _DENSE),
    Scope(f"{_GROUP}/attention_1/self/value", f"{_HF_GROUP}.attention.value", _DENSE),
    Scope(f"{_GROUP}/attention_1/output/dense", f"{_HF_GROUP}.attention.dense", _DENSE),
    Scope(f"{_GROUP}/LayerNorm", f"{_HF_GROUP}.attention.LayerNorm", _NORM),
)
FEED_FORWARD = (
    Scope(f"{_GROUP}/ffn_1/intermediate/dense", f"{_HF_GROUP}.ffn", _DENSE),
    Scope(f"{_GROUP}/ffn_1/intermediate/output/dense", f"{_HF_GROUP}.ffn_output", _DENSE),
    Scope(f"{_GROUP}/LayerNorm_1", f"{_HF_GROUP}.full_layer_layer_norm", _NORM),
)
POOLER = (Scope("pooler/dense", "albert.pooler", _DENSE),)
MLM = (
    Scope("cls/predictions/transform/dense", "predictions.dense", _DENSE),
    Scope("cls/predictions/transform/LayerNorm", "predictions.LayerNorm", _NORM),
    Scope("cls/predictions/output_bias", "predictions", _BIAS),
)
SENTENCE = (
    Scope("cls/seq_relationship/output_weights", "sop_classifier.classifier", _TABLE),
    Scope("cls/seq_relationship/output_bias", "sop_classifier.classifier", _BIAS),
)

# The heads of each kind of model, by what its task.json says.
HEADS: dict[str, Callable[[dict[str, Any]], tuple[Scope, ...]]] = {
    "encoder": lambda task: (),
    "pretrainer": lambda task: MLM + (SENTENCE if task["sentence_objective"] != "none" else ()),
}


class Names(NamedTuple):
    """What one variable is called, and whether PyTorch holds its transpose."""

    ours: str
    google: str
    hugging_face: str
    transposed: bool

    def to_hugging_face(self, value: np.ndarray) -> np.ndarray:
        """Our value, or Google's, as PyTorch holds it; its own inverse."""
        return value.T if self.transposed else value


def variable_names(config: AlbertConfig, task: dict[str, Any]) -> list[Names]:
    """The names of every variable of a model.

    Args:
      config: the network's shape.
      task: what `task_of` says of the model.
    Returns:
      One entry a variable.

    >>> names = variable_names(AlbertConfig(), {"model": "encoder"})
    >>> names[-2].google, names[-2].hugging_face
    ('bert/pooler/dense/kernel', 'albert.pooler.weight')
    """
    plan = sharing_plan(config)
    scopes = [*EMBEDDINGS, *(PROJECTION if config.has_projection else ())]
    for path in dict.fromkeys(step.attention for step in plan):
        scopes += [_at(path, scope) for scope in ATTENTION]
    for path in dict.fromkeys(step.feed_forward for step in plan):
        scopes += [_at(path, scope) for scope in FEED_FORWARD]
    scopes += [*POOLER, *HEADS[task["model"]](task)]
    return [names for scope in scopes for names in _names(scope)]


def _at(path: BlockPath, scope: Scope) -> Scope:
    place = path._asdict()
    return Scope(scope.ours.format(**place), scope.hugging_face.format(**place), scope.variables)


def _names(scope: Scope) -> list[Names]:
    found = []
    for variable, theirs in scope.variables.items():
        ours = f"{scope.ours}/{variable}".removesuffix("/")
        google = ours if ours.startswith("cls/") else f"bert/{ours}"
        found.append(Names(ours, google, f"{scope.hugging_face}.{theirs}", variable == "kernel"))
    return found
