"""Config files of Google and Hugging Face: their keys, translated to the fields of AlbertConfig."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from absl import logging

from albert_tf.errors import InputError, check_choice, check_type

# Old keys of Google's published configs, each with the only values that do not change the network.
_LEGACY_VALUES: dict[str, tuple[Any, ...]] = {
    "down_scale_factor": (1,),
    "net_structure_type": (0,),
    "gap_size": (0,),
    "num_memory_blocks": (0,),
    "layers_to_keep": ([],),
    "ln_type": ("postln",),
    "directionality": ("bidi",),
    "pooler_type": ("first_token_transform",),
}

# Keys that no code ever read: the geometry of BERT's pooler, and the number of labels of a task.
_IGNORED_KEYS = {
    *("num_labels", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
    "pooler_size_per_head",
}

HUGGING_FACE_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu": "gelu_erf",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}

# Optional keys of Hugging Face's config.json, each with the only values that do not change the outputs.
HUGGING_FACE_ALLOWED: Mapping[str, tuple[Any, ...]] = {
    "position_embedding_type": ("absolute",),
    "tie_word_embeddings": (True,),
    "tie_weights_": (True,),
    "is_decoder": (False,),
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": (None, {}),
    "quantization_config": (None,),
    "per_layer_config": (None, {}),
    "auto_map": (None,),
}

# Entries of task.json that say how long texts are read. They stand in config.json, too, where transformers
# ignores them.
READING_KEYS = ("long", "window_pooling", "doc_stride", "max_query_length", "max_answer_length", "n_best")

# Keys of Hugging Face's config.json that are read, besides the keys of `hugging_face_fields`.
HUGGING_FACE_READ = {
    *READING_KEYS,
    *("architectures", "id2label", "num_choices", "problem_type", "sentence_objective", "threshold"),
    *("words", "model_type", "pad_token_id", "tokenizer_class"),
}

# Keys of Hugging Face's config.json that do not change the outputs here: types and forms of the outputs,
# ids for the tokenizer, training, generation, paths of files. `label2id` repeats `id2label`.
_HUGGING_FACE_IGNORED_KEYS = """
label2id finetuning_task function_to_apply language name task_specific_params
dtype torch_dtype use_bfloat16 torchscript transformers_version xla_device
output_attentions output_hidden_states output_past return_dict use_cache use_return_dict
attn_implementation chunk_size_feed_forward gradient_checkpointing tf_legacy_loss
cross_attention_hidden_size tie_encoder_decoder sinusoidal_pos_embds qa_dropout
bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id decoder_start_token_id
bad_words_ids begin_suppress_tokens diversity_penalty do_sample early_stopping encoder_no_repeat_ngram_size
exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id length_penalty max_length min_length
no_repeat_ngram_size prefix num_beam_groups num_beams num_return_sequences output_scores
remove_invalid_values repetition_penalty return_dict_in_generate suppress_tokens temperature top_k top_p
typical_p
"""
HUGGING_FACE_IGNORED = {*_LEGACY_VALUES, *_IGNORED_KEYS, *_HUGGING_FACE_IGNORED_KEYS.split()}

# DistilBERT's keys in Hugging Face's config.json. The other models' keys are the names of our fields.
_DISTILBERT_KEYS = {
    "dim": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
    "activation": "hidden_act",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "seq_classif_dropout": "classifier_dropout_prob",
}

# The dropout rates of BERT, its relatives, and version 1 of ALBERT.
BERT_DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}

# Defaults of transformers' config classes by our fields, if they differ from our defaults.
_HUGGING_FACE_DEFAULTS: dict[str, dict[str, Any]] = {
    "albert": {  # an xxlarge
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "intermediate_size": 16384,
        "hidden_act": "gelu_new",
        "project_embeddings": True,  # even where E = H
    },
    "bert": {"vocab_size": 30522, "hidden_act": "gelu", **BERT_DROPOUT},
    "roberta": {"vocab_size": 50265, "hidden_act": "gelu", **BERT_DROPOUT},
    "distilbert": {
        "vocab_size": 30522,
        "num_hidden_layers": 6,
        "hidden_act": "gelu",
        "classifier_dropout_prob": 0.2,
        **BERT_DROPOUT,
    },
}

# Values that are fixed in the code of each model and not in its files. RoBERTa's pooler follows from the
# tensors of the checkpoint, and its `position_offset` from `pad_token_id`.
FIXED_FIELDS: dict[str, dict[str, Any]] = {
    "albert": {},
    "bert": {"sharing": "none"},
    "roberta": {"sharing": "none", "pooler": "none"},
    "distilbert": {"sharing": "none", "type_vocab_size": 0, "layer_norm_eps": 1e-12, "pooler": "none"},
}

# Fields that no config.json of Hugging Face has, and fields that only ALBERT's has.
_NOT_IN_HUGGING_FACE = ("sharing", "project_embeddings", "position_offset", "pooler")
_ALBERT_ONLY = ("embedding_size", "num_hidden_groups", "inner_group_num")


def hugging_face_fields(model_type: str, fields: Collection[str]) -> dict[str, str]:
    """The keys of Hugging Face's config.json that describe a network, with their fields of AlbertConfig."""
    keys = {field: field for field in fields if field not in _NOT_IN_HUGGING_FACE}
    if model_type == "albert":
        return keys
    keys = {key: field for key, field in keys.items() if key not in _ALBERT_ONLY}
    if model_type == "distilbert":
        theirs = {field: key for key, field in _DISTILBERT_KEYS.items()}
        return {theirs.get(key, key): field for key, field in keys.items()}
    keys["classifier_dropout"] = keys.pop("classifier_dropout_prob")
    return keys


def config_fields(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The fields of AlbertConfig from a parsed JSON file. See `AlbertConfig.from_dict` for the keys."""
    if not isinstance(values, Mapping):
        raise InputError(f"a config must be a JSON object, not {type(values).__name__}")
    if "model_type" in values:
        return _from_hugging_face(values, fields)
    _check_allowed(values, _LEGACY_VALUES, "network")
    if unknown := sorted(set(values) - set(fields) - set(_LEGACY_VALUES) - _IGNORED_KEYS):
        raise InputError(f"unknown config key {', '.join(map(repr, unknown))}: check its spelling")
    return {key: value for key, value in values.items() if key in fields}


def check_keys(
    values: Mapping[str, Any],
    read: Collection[str],
    allowed: Mapping[str, tuple[Any, ...]],
    ignored: Collection[str],
    subject: str,
    file: str,
) -> None:
    """Checks the keys of a file of Hugging Face, and logs a warning that names unknown keys.

    Args:
      values: content of the file, a JSON object.
      read: keys whose values are used.
      allowed: keys with the only values that are possible here.
      ignored: keys that mean nothing here. Keys that begin with "_" are ignored, too.
      subject: noun for the error, such as "network". Callers add the file to the error.
      file: name of the file, for the warning.
    Raises:
      InputError: a key has another value than `allowed` has for it.
    """
    _check_allowed(values, allowed, subject)
    unknown = sorted(key for key in values.keys() - {*read, *allowed, *ignored} if not key.startswith("_"))
    if unknown:
        logging.warning("%s: unknown here, and ignored: %s", file, ", ".join(unknown))


def _check_allowed(values: Mapping[str, Any], allowed: Mapping[str, tuple[Any, ...]], subject: str) -> None:
    for key, choices in allowed.items():
        if key in values and values[key] not in choices:
            only = " or ".join(map(repr, choices))
            raise InputError(f"{key}={values[key]!r} describes another {subject}, only {only} is known here")


def bert_to_albert_keys(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content of google-research/bert's bert_config.json with the keys of google-research/albert."""
    if not isinstance(values, Mapping) or "hidden_size" not in values:
        raise InputError("hidden_size is missing: this is no bert_config.json")
    return {**values, "embedding_size": values["hidden_size"], **FIXED_FIELDS["bert"]}


def _from_hugging_face(values: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    """The fields of AlbertConfig from Hugging Face's config.json; InputError for a network that we lack."""
    model_type = values["model_type"]
    check_choice("model_type", model_type, tuple(FIXED_FIELDS))
    keys = hugging_face_fields(model_type, fields)
    read = {*keys, *HUGGING_FACE_READ}
    check_keys(values, read, HUGGING_FACE_ALLOWED, HUGGING_FACE_IGNORED, "network", "config.json")
    ours = {field: values[key] for key, field in keys.items() if key in values}
    ours = {**_HUGGING_FACE_DEFAULTS[model_type], **ours}
    check_choice("hidden_act", ours["hidden_act"], tuple(HUGGING_FACE_ACTIVATIONS))
    ours |= {"hidden_act": HUGGING_FACE_ACTIVATIONS[ours["hidden_act"]], **FIXED_FIELDS[model_type]}
    if model_type != "albert":
        ours["embedding_size"] = ours.setdefault("hidden_size", 768)
    if model_type in ("bert", "roberta") and ours.get("classifier_dropout_prob") is None:
        ours["classifier_dropout_prob"] = ours["hidden_dropout_prob"]
    if model_type == "roberta":  # Hugging Face counts the position of padding, and all before it
        padding = values.get("pad_token_id", 1)
        check_type("pad_token_id", "int", padding)
        ours["position_offset"] = padding + 1
        ours["max_position_embeddings"] = values.get("max_position_embeddings", 512) - padding - 1
    return ours
