"""The vocabulary in a tokenizer.json of transformers, where no other file beside the checkpoint holds it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.conversion.rebuilt_vocabulary import RebuiltVocabulary, sentencepiece_vocabulary
from albert_tf.conversion.transfer import Source
from albert_tf.tokenizer_settings import BYTE_LEVEL_BPE, SENTENCEPIECE, UNCHANGED, VOCABULARY_FILES, WORDPIECE
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import dump_json, read_json

FAST_TOKENIZER = "tokenizer.json"


def with_rebuilt_vocabulary(source: Source, file: Path, folder: Path) -> Source:
    """A source with the vocabulary in a tokenizer.json, whose usual files are written into a folder.

    Raises:
      InputError: as `rebuilt_vocabulary`; or it contradicts the source.
    """
    rebuilt = rebuilt_vocabulary(file)
    if rebuilt.size != (size := source.config.vocab_size):
        raise InputError(f"{file}, which has {rebuilt.size} pieces, the config says vocab_size={size}")
    is_albert = VOCABULARY_FILES[SENTENCEPIECE] == tuple(rebuilt.files)
    if is_albert and source.tokenizer not in (None, rebuilt.tokenizer):
        raise InputError(f"{file}, which normalises text as {rebuilt.tokenizer}, not as {source.tokenizer}")
    for name, content in rebuilt.files.items():
        (folder / name).write_bytes(content)
    return source._replace(vocabulary=folder / next(iter(rebuilt.files)), tokenizer=rebuilt.tokenizer)


def rebuilt_vocabulary(file: Path) -> RebuiltVocabulary:
    """The vocabulary in a tokenizer.json.

    Raises:
      InputError: it is of another kind, or cannot be written so that text becomes the same tokens.
    """
    values = read_json(file)
    try:
        kinds = {"WordPiece": _word_pieces, "BPE": _byte_pairs}
        return kinds.get(values["model"]["type"], sentencepiece_vocabulary)(values)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise InputError(f"{file}, which is not as transformers writes it: {error}") from error


def _word_pieces(values: Mapping[str, Any]) -> RebuiltVocabulary:
    """The pieces as a `vocab.txt`, and how text is normalised."""
    normalizer = values["normalizer"]
    _check("normalizer", normalizer, type="BertNormalizer", clean_text=True, handle_chinese_chars=True)
    _check("pre_tokenizer", values["pre_tokenizer"], type="BertPreTokenizer")
    fixed = {"unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    _check("model", values["model"], **fixed)
    lowercase, strips = normalizer["lowercase"], normalizer["strip_accents"]
    pieces = _ids(values)
    content = "".join(f"{piece}\n" for piece in pieces).encode()
    tokenizer = {"lowercase": lowercase, "strip_accents": lowercase if strips is None else strips}
    return RebuiltVocabulary({VOCABULARY_FILES[WORDPIECE][0]: content}, len(pieces), tokenizer)


def _byte_pairs(values: Mapping[str, Any]) -> RebuiltVocabulary:
    """The tokens and merges as a `vocab.json` and a `merges.txt`."""
    _check("normalizer", {"normalizer": values["normalizer"]}, normalizer=None)
    _check("pre_tokenizer", values["pre_tokenizer"], type="ByteLevel", add_prefix_space=False)
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in values["model"]["merges"]]
    ids = _ids(values)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in pairs)]
    contents = dump_json(ids).encode(), "".join(f"{line}\n" for line in lines).encode()
    files = dict(zip(VOCABULARY_FILES[BYTE_LEVEL_BPE], contents, strict=True))
    return RebuiltVocabulary(files, len(ids), dict(UNCHANGED))


def _ids(values: Mapping[str, Any]) -> dict[str, int]:
    """The ids of the tokens, ascending from 0, those that were added among them."""
    ids = {**values["model"]["vocab"], **{token["content"]: token["id"] for token in values["added_tokens"]}}
    ordered = dict(sorted(ids.items(), key=lambda item: item[1]))
    if list(ordered.values()) != list(range(len(ids))):
        raise InputError(f"its ids are not 0 to {len(ids) - 1}, each once")
    return ordered


def _check(name: str, settings: Mapping[str, Any], **expected: Any) -> None:
    """InputError if settings are not those of the tokenizers here."""
    for key, value in expected.items():
        if settings[key] != value:
            raise InputError(f"{name} with {key}={settings[key]!r}, where tokenizers here have {value!r}")
