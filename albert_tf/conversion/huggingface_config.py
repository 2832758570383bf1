"""Makes the config.json and tokenizer_config.json of transformers for a network and its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.config_formats import (
    FIXED_FIELDS,
    HUGGING_FACE_ACTIVATIONS,
    READING_KEYS,
    hugging_face_fields,
)
from albert_tf.constants import SPACE_WORDS
from albert_tf.conversion.huggingface_tokenizer import HUGGING_FACE_CLASSES
from albert_tf.conversion.transfer import to_layer_groups
from albert_tf.errors import InputError
from albert_tf.text.text_tokenizer import SpecialIds
from albert_tf.text.tokenizer_config import BYTE_LEVEL_BPE, WORDPIECE

# The first name, if transformers has two names for an activation.
HUGGING_FACE_ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(HUGGING_FACE_ACTIVATIONS.items())}

# Prefixes of the names of transformers' classes by family, and suffixes by model.
_CLASS_PREFIXES = {"albert": "Albert", "bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
_CLASS_SUFFIXES = {
    "encoder": "Model",
    "pretrainer": "ForPreTraining",
    "classifier": "ForSequenceClassification",
    "token_classifier": "ForTokenClassification",
    "span_labeler": "ForQuestionAnswering",
    "multiple_choice": "ForMultipleChoice",
}

_MLM_SUFFIX = "ForMaskedLM"

# Values of `problem_type`: the meaning of a classifier's logits in transformers' pipeline.
PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")
REGRESSION_PROBLEM, SINGLE_LABEL_PROBLEM, MULTI_LABEL_PROBLEM = PROBLEM_TYPES

# Ids of the published vocabularies. The positions of RoBERTa depend on its padding id.
_SPECIAL_IDS = {
    "albert": {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    "bert": {"pad_token_id": 0},
    "roberta": {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    "distilbert": {"pad_token_id": 0},
}

# Values that each family's code can express.
_EXPRESSIBLE: dict[str, dict[str, tuple[Any, ...]]] = {
    "albert": {"pooler": ("tanh",), "position_offset": (0,)},
    "bert": {"pooler": ("tanh", "none")},
    "roberta": {"pooler": ("tanh", "none"), "position_offset": (2,)},
    "distilbert": {"pooler": ("relu", "none"), "layer_norm_eps": (1e-12,)},
}

# The mask of published RoBERTas: the space before it belongs to it.
_MASK = {
    **{"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False},
    **{"normalized": False, "single_word": False, "special": True},
}


def class_suffix(task: Mapping[str, Any]) -> str:
    """The suffix of transformers' class for the model of a task.json, such as "ForPreTraining"."""
    return _MLM_SUFFIX if task.get("sentence_objective") == "none" else _CLASS_SUFFIXES[task["model"]]


def hugging_face_config(
    config: AlbertConfig, task: Mapping[str, Any], special: SpecialIds | None = None
) -> dict[str, Any]:
    """The content of config.json.

    Args:
      config: config of the network.
      task: the entries of task.json.
      special: the ids of the special tokens. None: there is no vocabulary.
    Raises:
      InputError: transformers cannot express this network.
    """
    family = config.family
    architecture = f"{_CLASS_PREFIXES[family]}{class_suffix(task)}"
    _check_expressible(config, task, architecture)
    values = {
        **_network_values(config),
        "model_type": family,
        "architectures": [architecture],
        "dtype": "float32",
        "tie_word_embeddings": True,
        **_special_ids(family, special),
    }
    if task["model"] in ("classifier", "token_classifier"):
        names = task.get("labels") or [f"LABEL_{i}" for i in range(task["num_labels"])]
        values["id2label"] = {str(i): name for i, name in enumerate(names)}
        values["label2id"] = {name: i for i, name in enumerate(names)}
    if task["model"] == "token_classifier":
        values["words"] = task.get("words", SPACE_WORDS)  # not a key of transformers
    if task["model"] == "classifier":
        single = REGRESSION_PROBLEM if task["num_labels"] == 1 else SINGLE_LABEL_PROBLEM
        values["problem_type"] = MULTI_LABEL_PROBLEM if task.get("multi_label") else single
    own_keys = ("num_choices", "sentence_objective", "threshold", *READING_KEYS)  # not keys of transformers
    return values | {key: task[key] for key in own_keys if key in task}


def _special_ids(family: str, special: SpecialIds | None) -> dict[str, int]:
    """The special ids for config.json. Without a vocabulary they are the published ids."""
    published = _SPECIAL_IDS[family]
    if special is None:
        return published
    if family == "roberta" and special.padding != published["pad_token_id"]:
        raise InputError(f"padding has id {special.padding}: RoBERTa's needs 1, as byte-level BPE has it")
    ids = {
        "pad_token_id": special.padding,
        "bos_token_id": special.start,
        "eos_token_id": special.separator,
    }
    return {name: ids[name] for name in published}


def _network_values(config: AlbertConfig) -> dict[str, Any]:
    """The values of a config under the keys that its family has in config.json."""
    values = config.to_dict()
    values["hidden_act"] = HUGGING_FACE_ACTIVATION_NAMES[config.hidden_act]
    values["max_position_embeddings"] += config.position_offset
    if config.family == "albert":
        values["num_hidden_groups"] = to_layer_groups(config, hugging_face_group).num_hidden_groups
    keys, fixed = hugging_face_fields(config.family, values), FIXED_FIELDS[config.family]
    return {key: values[field] for key, field in keys.items() if field not in fixed}


def _check_expressible(config: AlbertConfig, task: Mapping[str, Any], architecture: str) -> None:
    """Raises InputError if transformers has no class for this network and task."""
    if task.get("answerability"):
        raise InputError(f"answerability=True: transformers' {architecture} has no answer class")
    if config.family in ("roberta", "distilbert") and class_suffix(task) == _CLASS_SUFFIXES["pretrainer"]:
        objective, mlm_class = task["sentence_objective"], f"{_CLASS_PREFIXES[config.family]}{_MLM_SUFFIX}"
        raise InputError(
            f"sentence_objective={objective!r}: transformers has no {architecture}, only {mlm_class}"
        )
    if config.family == "roberta" and class_suffix(task) == _MLM_SUFFIX and config.hidden_act != "gelu_erf":
        raise InputError(
            f"hidden_act={config.hidden_act!r}: the head of transformers' {architecture} has gelu_erf alone: "
            "convert the encoder, of which albert_tf.save(albert_tf.load(RUN).encoder, …) makes a run"
        )
    if config.family == "albert" and not config.type_vocab_size:
        raise InputError("type_vocab_size=0: transformers' ALBERT has segment types")
    for key, known in _EXPRESSIBLE[config.family].items():
        if (value := getattr(config, key)) not in known:
            choices = " or ".join(map(repr, known))
            raise InputError(f"{key}={value!r}: transformers' {architecture} has {choices} alone")
    if config.pooler == "relu" and task["model"] not in ("classifier", "multiple_choice"):
        raise InputError(f'pooler="relu": transformers\' {architecture} has no pooler, only classifiers have')


def hugging_face_group(layer: int, layers: int, groups: int) -> int:
    """The group of a layer in transformers' ALBERT."""
    return int(layer / (layers / groups))


def tokenizer_config(
    kind: str, settings: Mapping[str, bool], config: AlbertConfig, task: Mapping[str, Any]
) -> dict[str, Any]:
    """The content of tokenizer_config.json.

    Args:
      kind: kind of the tokenizer: "sentencepiece", "wordpiece" or "byte_level_bpe".
      settings: the settings of the tokenizer, from tokenizer.json of a run.
      config: config of the network.
      task: the entries of task.json.
    """
    # Written since transformers 5 has no default for ALBERT, and BERT's default for DistilBERT.
    types = ["token_type_ids"] if config.type_vocab_size > 1 else []
    values: dict[str, Any] = {
        "tokenizer_class": HUGGING_FACE_CLASSES[kind][0],
        "model_max_length": task.get("seq_length", config.max_position_embeddings),
        "model_input_names": ["input_ids", *types, "attention_mask"],
    }
    if kind == BYTE_LEVEL_BPE:
        # Taggers read each word with a space before it, and transformers needs this for lists of words.
        prefix = settings["add_prefix_space"] or task["model"] == "token_classifier"
        return {**values, "add_prefix_space": prefix, "mask_token": _MASK}
    values["do_lower_case"] = settings["lowercase"]
    if kind == WORDPIECE:
        return {**values, **{name: settings[name] for name in ("strip_accents", "tokenize_chinese_chars")}}
    return {**values, "keep_accents": not settings["strip_accents"], "remove_space": True}
