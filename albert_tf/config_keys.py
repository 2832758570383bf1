"""The keys of a network's config in other implementations, and what they are here."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from albert_tf.utils.checks import check_choice
from albert_tf.utils.errors import InputError

# Keys of published configs that Google's code read once, or never, with the values that leave the
# network what it is here.
_HISTORICAL: dict[str, tuple[Any, ...]] = {
    "down_scale_factor": (1,),
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "layers_to_keep": ([],),
    "ln_type": ("postln",),
    "directionality": ("bidi",),
    "pooler_type": ("first_token_transform",),
}

# Keys that no code ever read, whatever their value: BERT's pooler geometry, and what belongs to a task.
_UNREAD = {
    "num_labels",
    *(f"pooler_{name}" for name in ("fc_size", "num_attention_heads", "num_fc_layers", "size_per_head")),
}

HUGGING_FACE_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu": "gelu_erf",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}

# Values of Hugging Face's files that describe a network which exists here; they may be left out.
_HUGGING_FACE_NETWORKS = {
    "position_embedding_type": ("absolute",),
    "tie_word_embeddings": (True,),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}

# Of a DistilBERT in Hugging Face's files; other models have our names.
DISTILBERT_KEYS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "seq_classif_dropout": "classifier_dropout_prob",
}

# Defaults of transformers' config classes, in our names, where they are not ours.
_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_HUGGING_FACE_DEFAULTS: dict[str, dict[str, Any]] = {
    "albert": {  # an xxlarge
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "project_embeddings": True,  # even where E = H
    },
    "bert": {"vocab_size": 30522, "hidden_act": "gelu", **_DROPOUT},
    "roberta": {"vocab_size": 50265, "hidden_act": "gelu", **_DROPOUT},
    "distilbert": {
        "vocab_size": 30522,
        "num_hidden_layers": 6,
        "hidden_act": "gelu",
        "classifier_dropout_prob": 0.2,
        **_DROPOUT,
    },
}

# What the code of a model has fixed, and its files do not say. Whether a checkpoint of RoBERTa has a pooler,
# its tensors say.
_FIXED: dict[str, dict[str, Any]] = {
    "albert": {},
    "bert": {"sharing": "none"},
    "roberta": {"sharing": "none", "position_offset": 2, "pooler": "none"},
    "distilbert": {"sharing": "none", "type_vocab_size": 0, "layer_norm_eps": 1e-12, "pooler": "none"},
}


def our_fields(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The fields of AlbertConfig in a parsed JSON file, as `AlbertConfig.from_dict` has it."""
    if not isinstance(values, Mapping):
        raise InputError(f"a config must be a JSON object, not {type(values).__name__}")
    if "model_type" in values:
        values = _from_hugging_face(values, fields)
    _check_network(values, _HISTORICAL)
    if unknown := sorted(set(values) - set(fields) - set(_HISTORICAL) - _UNREAD):
        raise InputError(f"unknown config key {', '.join(map(repr, unknown))}: check its spelling")
    return {key: value for key, value in values.items() if key in fields}


def _check_network(values: Mapping[str, Any], networks: Mapping[str, tuple[Any, ...]]) -> None:
    """InputError for a value of a key that is none of those known of it."""
    for key, known in networks.items():
        if key in values and values[key] not in known:
            only = " or ".join(map(repr, known))
            raise InputError(f"{key}={values[key]!r} describes another network, only {only} is known here")


def of_google_bert(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content of google-research/bert's bert_config.json in the keys of google-research/albert."""
    if not isinstance(values, Mapping) or "hidden_size" not in values:
        raise InputError("hidden_size is missing: this is no bert_config.json")
    return {**values, "embedding_size": values["hidden_size"], **_FIXED["bert"]}


def _from_hugging_face(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Our fields from a Hugging Face config.json; InputError where its network is another one."""
    model_type = values["model_type"]
    check_choice("model_type", model_type, tuple(_FIXED))
    _check_network(values, _HUGGING_FACE_NETWORKS)
    keys = DISTILBERT_KEYS if model_type == "distilbert" else {}
    ours = {keys.get(key, key): value for key, value in values.items()}
    ours = {**_HUGGING_FACE_DEFAULTS[model_type], **{key: ours[key] for key in ours if key in fields}}
    check_choice("hidden_act", ours["hidden_act"], tuple(HUGGING_FACE_ACTIVATIONS))
    ours |= {"hidden_act": HUGGING_FACE_ACTIVATIONS[ours["hidden_act"]], **_FIXED[model_type]}
    if model_type != "albert":
        ours["embedding_size"] = ours.setdefault("hidden_size", 768)
    if model_type in ("bert", "roberta"):
        dropout = values.get("classifier_dropout")
        ours["classifier_dropout_prob"] = ours["hidden_dropout_prob"] if dropout is None else dropout
    if offset := ours.get("position_offset"):  # which Hugging Face counts among the positions
        ours["max_position_embeddings"] = values.get("max_position_embeddings", 512) - offset
    return ours
