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

# Keys that no ALBERT ever read, whatever their value: BERT's pooler geometry, and what belongs to a task.
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

# transformers' AlbertConfig() is an xxlarge: what its files leave out has these values.
_HUGGING_FACE_DEFAULTS = {
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "intermediate_size": 16384,
    "hidden_act": "gelu_new",
}


def our_fields(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """What a parsed JSON file says of these fields of AlbertConfig, as `AlbertConfig.from_dict` has it."""
    if not isinstance(values, Mapping):
        raise InputError(f"a config must be a JSON object, not {type(values).__name__}")
    if "model_type" in values:
        values = _from_hugging_face(values, fields)
    refused = [
        f"{key}={values[key]!r} describes another network, only {' or '.join(map(repr, known))} is known here"
        for key, known in _HISTORICAL.items()
        if key in values and values[key] not in known
    ]
    if refused:
        raise InputError("; ".join(refused))
    if unknown := sorted(set(values) - set(fields) - set(_HISTORICAL) - _UNREAD):
        raise InputError(f"unknown config key {', '.join(map(repr, unknown))}: check its spelling")
    return {key: value for key, value in values.items() if key in fields}


def _from_hugging_face(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """Our fields from a Hugging Face config.json; ValueError where its network is another one."""
    for key, known in (
        ("model_type", "albert"),
        ("position_embedding_type", "absolute"),
        ("tie_word_embeddings", True),
    ):
        if values.get(key, known) != known:
            raise InputError(f"{key}={values[key]!r} describes another network, only {known!r} is known here")
    values = {**_HUGGING_FACE_DEFAULTS, **values}
    check_choice("hidden_act", values["hidden_act"], tuple(HUGGING_FACE_ACTIVATIONS))
    ours = {key: value for key, value in values.items() if key in fields}
    ours["hidden_act"] = HUGGING_FACE_ACTIVATIONS[values["hidden_act"]]
    # Hugging Face's ALBERT projects the embeddings even where E = H.
    ours.setdefault("project_embeddings", True)
    return ours
