"""Reads the tokenizer in a folder of transformers: its vocabulary and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import logging

from albert_tf.config import AlbertConfig
from albert_tf.config_formats import check_keys
from albert_tf.conversion.tokenizer_json import FAST_TOKENIZER, FastTokenizer, bert_settings
from albert_tf.conversion.transfer import ForeignModel, find_vocabulary
from albert_tf.errors import InputError, add_place, check_type, shorten
from albert_tf.io import read_local_json
from albert_tf.text.text_tokenizer import Vocabulary
from albert_tf.text.tokenizer import TOKENIZER_CLASSES
from albert_tf.text.tokenizer_config import (
    BYTE_LEVEL_BPE,
    FAMILY_KINDS,
    NO_NORMALIZATION,
    SENTENCEPIECE,
    TOKENIZER_DEFAULTS,
    WORDPIECE,
    read_tokenizer_kind,
)

TOKENIZER_CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP, ADDED_TOKENS = "special_tokens_map.json", "added_tokens.json"

# Classes of transformers by kind of tokenizer, without the suffix "Fast".
HUGGING_FACE_CLASSES = {
    SENTENCEPIECE: ("AlbertTokenizer",),
    WORDPIECE: ("BertTokenizer", "DistilBertTokenizer"),
    BYTE_LEVEL_BPE: ("RobertaTokenizer",),
}
# Classes that take their settings from tokenizer.json.
_GENERIC_CLASSES = ("PreTrainedTokenizer", "TokenizersBackend")

# Keys of the special tokens in the order of `Vocabulary.special_pieces`, and keys of further special tokens.
_BASIC_TOKENS = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
_FURTHER_TOKENS = {
    *("bos_token", "eos_token", "additional_special_tokens", "extra_special_tokens"),
    "model_specific_special_tokens",
}

# Keys of special_tokens_map.json and of tokenizer_config.json that are read.
SPECIAL_TOKENS_READ = {*_BASIC_TOKENS, *_FURTHER_TOKENS}
TOKENIZER_CONFIG_READ = {
    *SPECIAL_TOKENS_READ,
    *("added_tokens_decoder", "tokenizer_class", "model_input_names"),
    *("do_lower_case", "strip_accents", "tokenize_chinese_chars", "keep_accents", "add_prefix_space"),
}
# Keys of tokenizer_config.json, each with the only values that do not change the ids.
TOKENIZER_CONFIG_ALLOWED: Mapping[str, tuple[Any, ...]] = {
    "padding_side": ("right",),
    "truncation_side": ("right",),
    "do_basic_tokenize": (True,),
    "never_split": (None, []),
    "remove_space": (True,),
    "sp_model_kwargs": (None, {}),
    "init_inputs": ([],),
    **dict.fromkeys(("auto_map", "vocab", "merges"), (None,)),
}
# Keys that do not change the ids of a text without special tokens: decoding, padding, paths of files,
# templates of chats.
TOKENIZER_CONFIG_IGNORED = {
    *("add_bos_token", "add_eos_token", "backend", "chat_control_tokens", "chat_template"),
    *(
        "clean_up_tokenization_spaces",
        "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output",
    ),
    *("device_map", "errors", "files_loaded", "from_slow", "full_tokenizer_file", "is_local", "legacy"),
    *("local_files_only", "max_len", "max_length", "model_max_length", "name_or_path", "pad_to_multiple_of"),
    *("pad_token_type_id", "processor_class", "response_schema", "response_template", "slow_tokenizer_class"),
    *("special_tokens_map_file", "split_special_tokens", "stride", "tokenizer_file", "trim_offsets"),
    *("truncation_strategy", "use_fast", "verbose", "vocab_file", "merges_file"),
}


def with_tokenizer(
    source: ForeignModel, folder: Path, scratch: Path, vocabulary: Path | None
) -> ForeignModel:
    """Adds the vocabulary and the settings of the tokenizer, which give texts the same ids as transformers.

    Args:
      source: the checkpoint.
      folder: the folder that transformers wrote.
      scratch: a folder for the vocabulary's files, if they must be made from tokenizer.json.
      vocabulary: path of a vocabulary to use instead of the folder's. None: use the folder's.
    Returns:
      A copy of `source`; without a vocabulary if the folder has none.
    Raises:
      InputError: our tokenizers do not have a setting, or files in the folder contradict each other.
    """
    config = _read_json(folder / TOKENIZER_CONFIG)
    if vocabulary is not None:
        kind, file = read_tokenizer_kind(vocabulary), folder / FAST_TOKENIZER
        settings = _class_settings(config, kind) if config else {}
        if file.exists() and (not config or _is_generic(config.get("tokenizer_class"))):
            try:
                settings = FastTokenizer(file).settings(kind)
            except InputError as error:
                logging.warning("%s: its settings are not used", error)
        return source._replace(vocabulary=vocabulary, tokenizer=settings or None)
    try:
        return _with_folder_tokenizer(source, folder, scratch, config)
    except InputError as error:
        raise InputError(f"{error}. Name another vocabulary, or mend the folder's") from error


def _with_folder_tokenizer(
    source: ForeignModel, folder: Path, scratch: Path, config: Mapping[str, Any]
) -> ForeignModel:
    """Adds the tokenizer in a folder, if there is one."""
    beside, file = find_vocabulary(folder), folder / FAST_TOKENIZER
    fast = FastTokenizer(file) if file.exists() else None
    if fast is not None:
        kind = fast.kind if beside is None else read_tokenizer_kind(beside)
        vocabulary = beside or fast.write_vocabulary(scratch, source.config.vocab_size)
    elif beside is not None:
        kind, vocabulary = read_tokenizer_kind(beside), beside
    else:
        return source
    with add_place(folder / TOKENIZER_CONFIG):
        is_generic, settings = _read_class(config, kind, source.config, _read_json(folder / "config.json"))
        if is_generic and fast is None:
            raise InputError(f"tokenizer_class={config['tokenizer_class']!r} needs a {FAST_TOKENIZER}")
    if fast is not None:
        fast_settings = fast.settings(kind)
        for name in [] if is_generic else fast_settings:
            if fast_settings[name] != settings[name]:
                other = f"{settings[name]!r} by {TOKENIZER_CONFIG} or transformers' defaults"
                raise InputError(f"{file}: {name} is {fast_settings[name]!r}, but {other}")
        settings = fast_settings
    elif not config:  # the usual settings are unknown
        settings = {name: value for name, value in settings.items() if name not in TOKENIZER_DEFAULTS}
    tokens = TOKENIZER_CLASSES[kind].vocabulary_class.from_file(vocabulary)
    _check_special_tokens(folder, config, tokens)
    if fast is not None:
        fast.check_vocabulary(tokens)
        fast.check_special_tokens(tokens, is_generic)
    padding = source.config.position_offset - 1
    if source.config.family == "roberta" and tokens.special_ids.padding != padding:
        other = f"padding is {tokens.special_ids.padding} in {vocabulary.name}"
        raise InputError(f"{folder}: pad_token_id={padding}, but {other}")
    return source._replace(vocabulary=vocabulary, tokenizer=settings)


def _read_json(file: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if the file does not exist."""
    return read_local_json(file) if file.exists() else {}


def _read_class(
    config: Mapping[str, Any], kind: str, network: AlbertConfig, network_file: Mapping[str, Any]
) -> tuple[bool, dict[str, bool]]:
    """True if the tokenizer's class takes its settings from tokenizer.json; and the settings of the class."""
    tables = TOKENIZER_CONFIG_READ, TOKENIZER_CONFIG_ALLOWED, TOKENIZER_CONFIG_IGNORED
    check_keys(config, *tables, "tokenizer", TOKENIZER_CONFIG)
    name = config.get("tokenizer_class") or network_file.get("tokenizer_class")
    is_generic = _is_generic(name)
    usual = (name or HUGGING_FACE_CLASSES[FAMILY_KINDS[network.family]][0]).removesuffix("Fast")
    if not is_generic and usual not in HUGGING_FACE_CLASSES[kind]:
        classes = ", ".join((*HUGGING_FACE_CLASSES[kind], *_GENERIC_CLASSES))
        raise InputError(f"tokenizer_class is {usual}, of {kind} vocabularies there are {classes} here")
    names = config.get("model_input_names", ["token_type_ids"])
    has_types = kind != BYTE_LEVEL_BPE and network.type_vocab_size > 1
    if not isinstance(names, list) or (has_types and "token_type_ids" not in names):
        raise InputError(f"model_input_names={names!r}, where pairs have token_type_ids here")
    return is_generic, _class_settings(config, kind)


def _is_generic(name: str | None) -> bool:
    """True for a class that takes its settings from tokenizer.json."""
    check_type("tokenizer_class", "str | None", name)
    return (name or "").removesuffix("Fast") in _GENERIC_CLASSES


def _class_settings(config: Mapping[str, Any], kind: str) -> dict[str, bool]:
    """The settings in tokenizer_config.json, with the defaults of the kind's class in transformers."""

    def value(name: str, default: bool | None, annotation: str = "bool") -> Any:
        setting = config.get(name, default)
        check_type(name, annotation, setting)
        return setting

    if kind == BYTE_LEVEL_BPE:
        return {**NO_NORMALIZATION, "add_prefix_space": value("add_prefix_space", False)}
    lowercase = value("do_lower_case", True)
    if kind == SENTENCEPIECE:
        if not value("add_prefix_space", True):
            raise InputError("add_prefix_space=False describes another tokenizer, only True is known here")
        return {"lowercase": lowercase, "strip_accents": not value("keep_accents", False)}
    strips = value("strip_accents", None, "bool | None")
    return bert_settings(lowercase, strips, value("tokenize_chinese_chars", True))


def _check_special_tokens(folder: Path, config: Mapping[str, Any], tokens: Vocabulary) -> None:
    """Raises InputError for special tokens that are unknown here, and for added tokens, which split texts."""
    named = dict(zip(_BASIC_TOKENS, tokens.special_pieces, strict=True))
    ids = dict(zip(tokens.special_pieces, tokens.special_ids, strict=True))
    special, added = folder / SPECIAL_TOKENS_MAP, folder / ADDED_TOKENS
    check_keys(_read_json(special), SPECIAL_TOKENS_READ, {}, (), "tokenizer", SPECIAL_TOKENS_MAP)
    for file, values in ((folder / TOKENIZER_CONFIG, config), (special, _read_json(special))):
        for key in values:
            if key in _FURTHER_TOKENS or (key.endswith("_token") and key not in TOKENIZER_CONFIG_IGNORED):
                known = (named[key],) if key in named else tokens.special_pieces
                for content in _token_texts(values[key]):
                    if content not in known:
                        only = " or ".join(map(repr, known))
                        raise InputError(f"{file}: {key}={content!r}, where only {only} is known here")
    decoder = config.get("added_tokens_decoder") or {}
    if not isinstance(decoder, Mapping):
        raise InputError(
            f"{folder / TOKENIZER_CONFIG}: added_tokens_decoder={shorten(decoder)} is not an object"
        )
    pairs = [(number, content) for number, token in decoder.items() for content in _token_texts(token)]
    for file, number, content in [
        *((folder / TOKENIZER_CONFIG, *pair) for pair in pairs),
        *((added, number, content) for content, number in _read_json(added).items()),
    ]:
        if str(ids.get(content)) != str(number):
            raise InputError(f"{file}: {content!r} is added with id {number}: texts are not cut at it here")


def _token_texts(value: Any) -> list[Any]:
    """The texts of one special token, of a list of tokens, or of a dict by name."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return [value["content"]] if "content" in value else _token_texts(list(value.values()))
    if isinstance(value, list):
        return [content for part in value for content in _token_texts(part)]
    return [value]
