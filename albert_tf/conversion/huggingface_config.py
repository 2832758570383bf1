"""A network and its tokenizer in the words of transformers: config.json and tokenizer_config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.config_formats import DISTILBERT_KEYS, HUGGING_FACE_ACTIVATIONS
from albert_tf.constants import SPACE_WORDS
from albert_tf.conversion.huggingface_tokenizer import HUGGING_FACE_CLASSES
from albert_tf.conversion.transfer import whole_layers
from albert_tf.errors import InputError
from albert_tf.text.text_tokenizer import SpecialIds
from albert_tf.text.tokenizer_config import BYTE_LEVEL_BPE, WORDPIECE

# Of two names for the same the first one.
HUGGING_FACE_ACTIVATION_NAMES = {ours: theirs for theirs, ours in reversed(HUGGING_FACE_ACTIVATIONS.items())}

# The beginnings of the names of classes, and their ends.
_FAMILIES = {"albert": "Albert", "bert": "Bert", "roberta": "Roberta", "distilbert": "DistilBert"}
_KINDS = {
    "encoder": "Model",
    "pretrainer": "ForPreTraining",
    "classifier": "ForSequenceClassification",
    "token_classifier": "ForTokenClassification",
    "span_labeler": "ForQuestionAnswering",
    "multiple_choice": "ForMultipleChoice",
}

_MLM_ALONE = "ForMaskedLM"

# What a classifier's logits mean to transformers' pipeline.
PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")
REGRESSION, ONE_LABEL, ANY_NUMBER = PROBLEM_TYPES

# The ids of the published vocabularies; padding's is that of RoBERTa's positions.
_SPECIAL_IDS = {
    "albert": {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
    "bert": {"pad_token_id": 0},
    "roberta": {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2},
    "distilbert": {"pad_token_id": 0},
}

# What the code of each family has fixed.
_FIXED: dict[str, dict[str, tuple[Any, ...]]] = {
    "albert": {"pooler": ("tanh",), "position_offset": (0,)},
    "bert": {"pooler": ("tanh", "none")},
    "roberta": {"pooler": ("tanh", "none"), "position_offset": (2,)},
    "distilbert": {"pooler": ("relu", "none"), "layer_norm_eps": (1e-12,)},
}
# Fields that no file has; those that BERT's, RoBERTa's and DistilBERT's do not have; and DistilBERT's.
_NOT_THERE = ("sharing", "project_embeddings", "position_offset", "pooler")
_OF_ALBERT = ("embedding_size", "num_hidden_groups", "inner_group_num")
_NOT_OF_DISTILBERT = ("type_vocab_size", "layer_norm_eps")

# As published RoBERTa has it: the space before a mask belongs to it.
_MASK = {
    **{"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False},
    **{"normalized": False, "single_word": False, "special": True},
}


def model_kind(task: Mapping[str, Any]) -> str:
    """The end of the name of the class for the model of a task.json, such as "ForPreTraining"."""
    return _MLM_ALONE if task.get("sentence_objective") == "none" else _KINDS[task["model"]]


def hugging_face_config(
    config: AlbertConfig, task: Mapping[str, Any], special: SpecialIds | None = None
) -> dict[str, Any]:
    """The content of config.json, by a task.json and the vocabulary's special ids, if there is one.

    InputError if transformers cannot express this network.
    """
    family = config.family
    architecture = f"{_FAMILIES[family]}{model_kind(task)}"
    _check_expressible(config, task, architecture)
    values = {
        **{key: value for key, value in _shape(config).items() if key not in _NOT_THERE},
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
        values["words"] = task.get("words", SPACE_WORDS)  # which transformers does not know
    if task["model"] == "classifier":
        of_one = REGRESSION if task["num_labels"] == 1 else ONE_LABEL
        values["problem_type"] = ANY_NUMBER if task.get("multi_label") else of_one
    kept = ("num_choices", "sentence_objective", "threshold")  # which transformers does not know
    return values | {key: task[key] for key in kept if key in task}


def _special_ids(family: str, special: SpecialIds | None) -> dict[str, int]:
    """The special ids in config.json, of a vocabulary; None: of the published ones."""
    published = _SPECIAL_IDS[family]
    if special is None:
        return published
    if family == "roberta" and special.padding != published["pad_token_id"]:
        raise InputError(f"padding has id {special.padding}: RoBERTa's needs 1, as byte-level BPE has it")
    found = {
        "pad_token_id": special.padding,
        "bos_token_id": special.start,
        "eos_token_id": special.separator,
    }
    return {name: found[name] for name in published}


def _shape(config: AlbertConfig) -> dict[str, Any]:
    """The fields of a config by the keys of its family's files."""
    values = {**config.to_dict(), "hidden_act": HUGGING_FACE_ACTIVATION_NAMES[config.hidden_act]}
    if config.family == "albert":
        whole = whole_layers(config, hugging_face_group)
        return {**values, "num_hidden_groups": whole.num_hidden_groups}
    values = {key: value for key, value in values.items() if key not in _OF_ALBERT}
    if config.family == "distilbert":
        keys = {ours: theirs for theirs, ours in DISTILBERT_KEYS.items()}
        return {keys.get(key, key): v for key, v in values.items() if key not in _NOT_OF_DISTILBERT}
    values["classifier_dropout"] = values.pop("classifier_dropout_prob")
    values["max_position_embeddings"] += config.position_offset
    return values


def _check_expressible(config: AlbertConfig, task: Mapping[str, Any], architecture: str) -> None:
    """InputError if transformers has no such class, or its class is another network."""
    if task.get("answerability"):
        raise InputError(f"answerability=True: transformers' {architecture} has no answer class")
    if config.family in ("roberta", "distilbert") and model_kind(task) == _KINDS["pretrainer"]:
        objective, there = task["sentence_objective"], f"{_FAMILIES[config.family]}{_MLM_ALONE}"
        raise InputError(
            f"sentence_objective={objective!r}: transformers has no {architecture}, only {there}"
        )
    if config.family == "albert" and not config.type_vocab_size:
        raise InputError("type_vocab_size=0: transformers' ALBERT has segment types")
    for key, known in _FIXED[config.family].items():
        if (value := getattr(config, key)) not in known:
            choices = " or ".join(map(repr, known))
            raise InputError(f"{key}={value!r}: transformers' {architecture} has {choices} alone")
    if config.pooler == "relu" and task["model"] not in ("classifier", "multiple_choice"):
        raise InputError(f'pooler="relu": transformers\' {architecture} has no pooler, only classifiers have')


def hugging_face_group(layer: int, layers: int, groups: int) -> int:
    """The group of a layer in transformers' ALBERT."""
    return int(layer / (layers / groups))


def tokenizer_config(kind: str, settings: Mapping[str, bool], config: AlbertConfig) -> dict[str, Any]:
    """The content of tokenizer_config.json.

    Args:
      kind: of the tokenizer, as a run's tokenizer.json has it.
      settings: how text is normalised.
      config: of the network.
    """
    # Said because transformers 5 gives none to ALBERT, and those of BERT's tokenizer to DistilBERT.
    types = ["token_type_ids"] if config.type_vocab_size > 1 else []
    values: dict[str, Any] = {
        "tokenizer_class": HUGGING_FACE_CLASSES[kind][0],
        "model_max_length": config.max_position_embeddings,
        "model_input_names": ["input_ids", *types, "attention_mask"],
    }
    if kind == BYTE_LEVEL_BPE:
        return {**values, "add_prefix_space": settings["add_prefix_space"], "mask_token": _MASK}
    values["do_lower_case"] = settings["lowercase"]
    if kind == WORDPIECE:
        return {**values, **{name: settings[name] for name in ("strip_accents", "tokenize_chinese_chars")}}
    return {**values, "keep_accents": not settings["strip_accents"], "remove_space": True}
