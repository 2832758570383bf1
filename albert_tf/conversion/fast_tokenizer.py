"""The vocabulary in a tokenizer.json of transformers, where no other file beside the checkpoint holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.conversion.rebuilt_vocabulary import with_sentencepiece_model
from albert_tf.conversion.transfer import Source
from albert_tf.tokenizer_settings import BYTE_LEVEL_BPE, SENTENCEPIECE, UNCHANGED, VOCABULARY_FILES, WORDPIECE
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import read_json

FAST_TOKENIZER = "tokenizer.json"


def with_rebuilt_vocabulary(source: Source, file: Path, folder: Path) -> Source:
    """A source with the vocabulary in a tokenizer.json, whose usual files are written into a folder.

    Raises:
      InputError: it is of another kind, or cannot be written so that text becomes the same tokens.
    """
    values = read_json(file)
    try:
        kind = values["model"]["type"]
        if kind == "WordPiece":
            return _with_word_pieces(source, values, folder)
        if kind == "BPE":
            return _with_byte_pairs(source, values, folder)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"{file}, which is not as transformers writes it: {error}") from error
    return with_sentencepiece_model(source, file, folder / VOCABULARY_FILES[SENTENCEPIECE][0])


def _with_word_pieces(source: Source, values: Mapping[str, Any], folder: Path) -> Source:
    """The pieces as a `vocab.txt`, and how text is normalised."""
    normalizer = values["normalizer"]
    _check("normalizer", normalizer, type="BertNormalizer", clean_text=True, handle_chinese_chars=True)
    _check("pre_tokenizer", values["pre_tokenizer"], type="BertPreTokenizer")
    fixed = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    _check("model", values["model"], **fixed)
    lowercase, strips = normalizer["lowercase"], normalizer["strip_accents"]
    path = folder / VOCABULARY_FILES[WORDPIECE][0]
    path.write_text("".join(f"{piece}\n" for piece in _ids(source, values)), encoding="utf-8")
    tokenizer = {"lowercase": lowercase, "strip_accents": lowercase if strips is None else strips}
    return source._replace(vocabulary=path, tokenizer=tokenizer)


def _with_byte_pairs(source: Source, values: Mapping[str, Any], folder: Path) -> Source:
    """The tokens and merges as a `vocab.json` and a `merges.txt`."""
    _check("normalizer", {"normalizer": values["normalizer"]}, normalizer=None)
    _check("pre_tokenizer", values["pre_tokenizer"], type="ByteLevel", add_prefix_space=False)
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in values["model"]["merges"]]
    vocabulary, merges = (folder / name for name in VOCABULARY_FILES[BYTE_LEVEL_BPE])
    vocabulary.write_text(json.dumps(_ids(source, values), ensure_ascii=False), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(pair) for pair in pairs)]
    merges.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return source._replace(vocabulary=vocabulary, tokenizer=dict(UNCHANGED))


def _ids(source: Source, values: Mapping[str, Any]) -> dict[str, int]:
    """The ids of the tokens, ascending from 0, those that were added among them."""
    ids = {**values["model"]["vocab"], **{token["content"]: token["id"] for token in values["added_tokens"]}}
    ordered = dict(sorted(ids.items(), key=lambda item: item[1]))
    if list(ordered.values()) != list(range(len(ids))):
        raise InputError(f"its ids are not 0 to {len(ids) - 1}, each once")
    if len(ids) != source.config.vocab_size:
        raise InputError(f"it has {len(ids)} pieces, the config says vocab_size={source.config.vocab_size}")
    return ordered


def _check(name: str, settings: Mapping[str, Any], **expected: Any) -> None:
    """InputError if settings are not those of the tokenizers here."""
    for key, value in expected.items():
        if settings[key] != value:
            raise InputError(f"{name} with {key}={settings[key]!r}, where tokenizers here have {value!r}")
