"""The names of variables here and in the checkpoints of other implementations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.models.sharing import BlockScope, sharing_plan
from albert_tf.runs.build_model import MODELS

# The parts of a layer: here; in BERT and RoBERTa (Google writes "/" for "."); in DistilBERT.
_LAYER = {
    ours: (bert, distilbert)
    for ours, bert, distilbert in (
        line.split()
        for line in """
attention_1/self/query          attention.self.query       attention.q_lin
attention_1/self/key            attention.self.key         attention.k_lin
attention_1/self/value          attention.self.value       attention.v_lin
attention_1/output/dense        attention.output.dense     attention.out_lin
LayerNorm                       attention.output.LayerNorm sa_layer_norm
ffn_1/intermediate/dense        intermediate.dense         ffn.lin1
ffn_1/intermediate/output/dense output.dense               ffn.lin2
LayerNorm_1                     output.LayerNorm           output_layer_norm
""".strip().splitlines()
    )
}

# Parts outside the layers with other names in Hugging Face's files.
_OTHERS = {
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

_IN_LAYER = re.compile(r"encoder/transformer/group_(\d+)/inner_group_0/(.+)")


def google_bert_name(part: str) -> str:
    """Translates the name of a part from google-research/albert to google-research/bert.

    >>> google_bert_name("bert/encoder/transformer/group_1/inner_group_0/ffn_1/intermediate/dense")
    'bert/encoder/layer_1/intermediate/dense'
    """
    return _IN_LAYER.sub(
        lambda found: f"encoder/layer_{found[1]}/{_LAYER[found[2]][0].replace('.', '/')}", part
    )


def hugging_face_name(part: str, family: str, model: str) -> str:
    """The name of a part of the network in Hugging Face's files.

    Args:
      part: its name here.
      family: "bert", "roberta" or "distilbert".
      model: entry `model` of task.json.

    >>> hugging_face_name("pooler/dense", "roberta", "classifier")
    'classifier.dense'
    """
    has_pooler = (family, model) == ("roberta", "classifier")
    others = _OTHERS[family] | (_ROBERTA_CLASSIFIER if has_pooler else {})
    if match := _IN_LAYER.fullmatch(part):
        bert, distilbert = _LAYER[match[2]]
        layers, name = ("transformer", distilbert) if family == "distilbert" else ("encoder", bert)
        return f"{family}.{layers}.layer.{match[1]}.{name}"
    if part in others:
        return others[part]
    scope = f"{family}." if part.startswith(("embeddings/", "pooler/")) else ""
    return scope + part.replace("/", ".")


# Prefixes of the encoder's names; heads have none.
GOOGLE_SCOPE, HUGGING_FACE_SCOPE = "bert/", "albert."


class _Part(NamedTuple):
    """A part of the network in the tables. Shapes are letters: V E S T H I N D, K labels, X exits.

    Shapes of dense and output parts are input > output.
    """

    ours: str
    hugging_face: str
    kind: str  # of _VARIABLES
    shape: str
    hub: str = ""
    hub_shape: str = ""  # the same elements in the same order; "": the same shape
    google: str | None = None  # None: as here


# The variables of each kind of part, and their names in PyTorch.
_VARIABLES = {
    "table": {"": "weight"},
    "dense": {"kernel": "weight", "bias": "bias"},
    "kernel": {"kernel": "weight"},
    "norm": {"gamma": "weight", "beta": "bias"},
    "output": {"output_weights": "weight", "output_bias": "bias"},
    "bias": {"output_bias": "bias"},
}


def _parts(table: str) -> list[_Part]:
    return [_Part(*line.split()) for line in table.strip().splitlines()]


_EMBEDDINGS = _parts("""
embeddings/word_embeddings       embeddings.word_embeddings       table V,E word_embeddings
embeddings/token_type_embeddings embeddings.token_type_embeddings table T,E type_embeddings
embeddings/position_embeddings   embeddings.position_embeddings   table S,E position_embedding
embeddings/LayerNorm             embeddings.LayerNorm             norm  E   embeddings/layer_norm
""")
_PROJECTION = _parts("""
encoder/embedding_hidden_mapping_in encoder.embedding_hidden_mapping_in dense E>H embedding_projection
""")
_POOLER = _parts("""
pooler/dense pooler dense H>H pooler_transform
""")

# Parts of a block, inside the scope of its group.
_ATTENTION = _parts("""
attention_1/self/query   attention.query     dense H>H self_attention/query            H>N,D
attention_1/self/key     attention.key       dense H>H self_attention/key              H>N,D
attention_1/self/value   attention.value     dense H>H self_attention/value            H>N,D
attention_1/output/dense attention.dense     dense H>H self_attention/attention_output N,D>H
LayerNorm                attention.LayerNorm norm  H   self_attention_layer_norm
""")
_FEED_FORWARD = _parts("""
ffn_1/intermediate/dense        ffn                   dense H>I intermediate
ffn_1/intermediate/output/dense ffn_output            dense I>H output
LayerNorm_1                     full_layer_layer_norm norm  H   output_layer_norm
""")

_HEADS = {
    "mlm": _parts("""
cls/predictions/transform/dense     predictions.dense     dense H>E
cls/predictions/transform/LayerNorm predictions.LayerNorm norm  E
cls/predictions                     predictions           bias  V
"""),
    "sentence": _parts("cls/seq_relationship sop_classifier.classifier output H>2"),
    # run_classifier and run_race of google-research/albert give their heads no scope. The scope of token
    # classifiers is our own; it distinguishes them.
    "classifier": [_Part("classifier", "classifier", "output", "H>K", google="")],
    "exits": _parts("exits exits output H>X,K"),  # all layers except the last; other formats have none
    "token_classifier": _parts("classifier classifier output H>K"),
    "span": _parts("cls/squad qa_outputs output H>2"),
    # run_squad_v2's. In transformers XLNet has such a head, ALBERT does not.
    "answerable_span": _parts("""
start_logits/dense   start_logits.dense   dense  H>1
end_logits/dense_0   end_logits.dense_0   dense  2H>H
end_logits/LayerNorm end_logits.LayerNorm norm   H
end_logits/dense_1   end_logits.dense_1   dense  H>1
answer_class/dense_0 answer_class.dense_0 dense  2H>H
answer_class/dense_1 answer_class.dense_1 kernel H>1
"""),
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


class Names(NamedTuple):
    """Name and shape of a variable here and in each format."""

    ours: str
    shape: tuple[int, ...]
    google: VariableMap
    hugging_face: VariableMap
    hub: VariableMap


def variable_names(config: AlbertConfig, task: Mapping[str, Any], family: str | None = None) -> list[Names]:
    """Names and shapes of all variables of a model.

    Args:
      config: the network's shape.
      task: entries of task.json, as `task_of` returns them.
      family: family whose names Google's and Hugging Face's formats get. None: `config.family`.

    >>> names = variable_names(AlbertConfig(), {"model": "encoder"})
    >>> names[-2].google.name, names[-2].hugging_face.name, names[-2].shape
    ('bert/pooler/dense/kernel', 'albert.pooler.weight', (768, 768))
    """
    plan = sharing_plan(config)
    parts = [part for part in _EMBEDDINGS if config.type_vocab_size or "T" not in part.shape]
    parts += _PROJECTION if config.has_projection else []
    for path in dict.fromkeys(pair.attention for pair in plan):
        parts += _in_group(path, _ATTENTION, config.sharing)
    for path in dict.fromkeys(pair.feed_forward for pair in plan):
        parts += _in_group(path, _FEED_FORWARD, config.sharing)
    parts += _POOLER if config.pooler != "none" else []
    encoder = [
        part._replace(google=GOOGLE_SCOPE + part.ours, hugging_face=HUGGING_FACE_SCOPE + part.hugging_face)
        for part in parts
    ]
    return _names([*encoder, *_head_parts(task)], config, task, family or config.family)


def head_names(task: Mapping[str, Any], family: str = "albert") -> list[Names]:
    """Names of the head's variables, for a network of any architecture."""
    return _names(_head_parts(task), AlbertConfig(), task, family)


def _head_parts(task: Mapping[str, Any]) -> list[_Part]:
    return [part for head in MODELS[task["model"]].heads(task) for part in _HEADS[head]]


def _sizes(config: AlbertConfig, task: Mapping[str, Any]) -> dict[str, int]:
    """Sizes by the letters of the shapes."""
    return {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "S": config.position_offset + config.max_position_embeddings,
        "T": config.type_vocab_size,
        "H": config.hidden_size,
        "I": config.intermediate_size,
        "N": config.num_attention_heads,
        "D": config.hidden_size // config.num_attention_heads,
        "K": task.get("num_labels", 1),  # multiple choice has one logit per row
        "X": config.num_hidden_layers - 1,
        "1": 1,
        "2": 2,
        "2H": 2 * config.hidden_size,
    }


def _in_group(path: BlockScope, parts: Iterable[_Part], sharing: str) -> list[_Part]:
    """The parts of the block at `path`."""
    hub = f"transformer/layer_{path.group}" if sharing == "none" else "transformer"
    hugging_face = f"encoder.albert_layer_groups.{path.group}.albert_layers.{path.inner}"
    return [
        part._replace(
            ours=f"{path.scope()}/{part.ours}",
            hugging_face=f"{hugging_face}.{part.hugging_face}",
            hub=f"{hub}/{part.hub}",
        )
        for part in parts
    ]


def _names(parts: Iterable[_Part], config: AlbertConfig, task: Mapping[str, Any], family: str) -> list[Names]:
    """The variables of parts of a network, with the names of a family."""
    sizes, names = _sizes(config, task), []
    for part in parts:
        google = part.ours if part.google is None else part.google
        hugging_face = part.hugging_face
        if family != "albert":
            google = google_bert_name(google)
            hugging_face = hugging_face_name(part.ours, family, task["model"])
        for name, in_torch in _VARIABLES[part.kind].items():
            shape, hub_shape = (_shape(name, x, sizes) for x in (part.shape, part.hub_shape or part.shape))
            is_kernel = name == "kernel"  # which PyTorch transposes
            torch_shape = shape[::-1] if is_kernel else shape
            ours, google_name = ("/".join(filter(None, [scope, name])) for scope in (part.ours, google))
            names.append(
                Names(
                    ours,
                    shape,
                    VariableMap(google_name, shape, shape),
                    VariableMap(f"{hugging_face}.{in_torch}", torch_shape, shape, is_kernel),
                    VariableMap(f"{part.hub}/{name or 'embeddings'}", hub_shape, shape),
                )
            )
    return names


def _shape(name: str, letters: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a variable, given the letters of its part."""
    before, after = (
        tuple(sizes[letter] for letter in axes.split(",") if letter) for axes in letters.rpartition(">")[::2]
    )
    return {"kernel": before + after, "output_weights": after + before}.get(name, after)
