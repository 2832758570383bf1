"""The SentencePiece model that a tokenizer.json of transformers was made from.

transformers 5 writes no `spiece.model` beside its own form of a tokenizer. That form holds the pieces, scores
and table of normalisation; what it does not hold is known of an ALBERT's.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from albert_tf.conversion.transfer import Source
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import read_json

FAST_TOKENIZER = "tokenizer.json"

_SPECIAL_PIECES = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
_PAD_ID, _UNKNOWN_ID = 0, 1  # as all of ALBERT's vocabularies have them

# Of sentencepiece_model.proto: types of pieces, and the types that a field can have on the wire.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_VARINT, _BYTES, _FLOAT = 0, 2, 5
_UNIGRAM = 1

# Beside them transformers 4 has one that joins spaces, as SentencePiece does.
_QUOTES = [("``", '"'), ("''", '"')]
_SPACES = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
# transformers 4 takes this from the score of a piece such as "9,", so as to divide it in two.
_COMMA_PENALTY = 100.0


class RebuiltVocabulary(NamedTuple):
    """A vocabulary and how its text is normalised."""

    model: bytes  # of a SentencePiece model file
    size: int  # pieces, V
    tokenizer: dict[str, bool]  # of tokenizer.json as a run has it


def with_rebuilt_vocabulary(source: Source, file: Path, path: Path) -> Source:
    """A source with the vocabulary in a tokenizer.json, which is written as a SentencePiece model.

    Raises:
      InputError: it cannot be rebuilt exactly, or contradicts the source.
    """
    rebuilt = rebuilt_vocabulary(file)
    if rebuilt.size != source.config.vocab_size:
        raise InputError(
            f"{file} has {rebuilt.size} pieces, the config says vocab_size={source.config.vocab_size}"
        )
    if source.tokenizer not in (None, rebuilt.tokenizer):
        raise InputError(f"{file} normalises text as {rebuilt.tokenizer}, not as {source.tokenizer}")
    path.write_bytes(rebuilt.model)
    return source._replace(vocabulary=path, tokenizer=rebuilt.tokenizer)


def rebuilt_vocabulary(path: Path) -> RebuiltVocabulary:
    """The vocabulary in a tokenizer.json that transformers wrote for an ALBERT.

    Pieces, scores and the table of normalisation are those of the model that it was made from, so that text
    becomes the same tokens.

    Args:
      path: the file.
    Raises:
      ValueError: it cannot be rebuilt exactly; the message says why.
    """
    values = read_json(path)
    try:
        return _rebuilt(values)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{path} is not as transformers writes it: {error!r}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _rebuilt(values: Mapping[str, Any]) -> RebuiltVocabulary:
    model = values["model"]
    if model["type"] != "Unigram" or model.get("byte_fallback") or model["unk_id"] != _UNKNOWN_ID:
        raise InputError("it is not a unigram model with <unk> at id 1")
    pieces = [piece for piece, _ in model["vocab"]]
    if pieces[: len(_SPECIAL_PIECES)] != _SPECIAL_PIECES or len(set(pieces)) < len(pieces):
        raise InputError(f"its pieces do not begin with {', '.join(_SPECIAL_PIECES)}, or repeat themselves")
    _check_words(values["pre_tokenizer"])
    tokenizer, table = _normalizer(values["normalizer"])
    scores = _scores(model["vocab"])
    types = _types(scores, pieces, values["added_tokens"])
    content = b"".join(
        _field(1, _field(1, piece.encode()) + _field(2, score) + _field(3, kind))
        for piece, score, kind in zip(pieces, scores.tolist(), types, strict=True)
    )
    trainer = {3: _UNIGRAM, 4: len(pieces), 40: _UNKNOWN_ID, 41: -1, 42: -1, 43: _PAD_ID}
    content += _field(2, b"".join(_field(number, value) for number, value in trainer.items()))
    # A space before the text, single spaces, and these as ▁.
    normalizer: dict[int, bytes | int] = {1: b"nmt_nfkc", 2: table, 3: 1, 4: 1, 5: 1}
    content += _field(3, b"".join(_field(number, value) for number, value in normalizer.items()))
    return RebuiltVocabulary(content, len(pieces), tokenizer)


def _check_words(settings: Mapping[str, Any]) -> None:
    """ValueError unless text is divided at spaces, each of which becomes the ▁ before a word."""
    parts = settings["pretokenizers"] if settings["type"] == "Sequence" else [settings]
    kinds = [part["type"] for part in parts]
    last = parts[-1]
    begins = last.get("prepend_scheme", "always" if last.get("add_prefix_space") else "never")
    if kinds not in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]) or last["replacement"] != "▁":
        raise InputError(f"its pre_tokenizer, {' and '.join(kinds)}, is not an ALBERT's")
    if begins != "always":
        raise InputError(f"prepend_scheme={begins!r} is not an ALBERT's: it must be 'always'")


def _normalizer(settings: Mapping[str, Any]) -> tuple[dict[str, bool], bytes]:
    """Settings and SentencePiece's table of the normalisation; InputError unless they are an ALBERT's."""
    steps = list(settings["normalizers"]) if settings["type"] == "Sequence" else [settings]
    quotes = [{"type": "Replace", "pattern": {"String": old}, "content": new} for old, new in _QUOTES]
    kinds = [step["type"] for step in steps if step not in (*quotes, _SPACES)]
    strip_accents, lowercase = "StripAccents" in kinds, "Lowercase" in kinds
    expected = ["NFKD", "StripAccents"] * strip_accents + ["Lowercase"] * lowercase + ["Precompiled"]
    if kinds != expected:
        raise InputError(
            f"its normalizer, {', '.join(kinds) or 'none'}, is not an ALBERT's: {', '.join(expected)}"
        )
    table = next(step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled")
    try:
        decoded = base64.b64decode(table, validate=True)
    except binascii.Error as error:
        raise InputError(f"its precompiled_charsmap is damaged: {error}") from error
    return {"lowercase": lowercase, "strip_accents": strip_accents}, decoded


def _scores(vocabulary: Iterable[tuple[str, float]]) -> np.ndarray:
    """The score of each piece, float32 [V]; ValueError where one is not a float32's."""
    rounded = []
    for piece, score in vocabulary:
        is_penalised = score < -_COMMA_PENALTY and piece[-1:] == "," and piece[-2:-1].isdigit()
        exact = score + _COMMA_PENALTY if is_penalised else score
        rounded.append(np.float32(exact))
        # The sum is rounded once more.
        if not abs(float(rounded[-1]) - exact) <= (1e-12 if is_penalised else 0.0):
            raise InputError(f"the score of {piece!r}, {score!r}, is none of SentencePiece's")
    return np.array(rounded, np.float32)


def _types(scores: np.ndarray, pieces: list[str], added: Iterable[Mapping[str, Any]]) -> list[int]:
    """The type of each piece; those that are found whole wherever they stand have the score 0."""
    types = [_USER_DEFINED if score == 0 else _NORMAL for score in scores.tolist()]
    for token in added:
        if token["id"] >= len(pieces) or pieces[token["id"]] != token["content"]:
            raise InputError(f"{token['content']!r} was added beside its pieces")
        if token["special"]:
            types[token["id"]] = _CONTROL
        elif types[token["id"]] != _USER_DEFINED:
            raise InputError(f"{token['content']!r} was made a token of its own")
    types[: len(_SPECIAL_PIECES)] = [_CONTROL] * len(_SPECIAL_PIECES)
    types[_UNKNOWN_ID] = _UNKNOWN
    return types


def _field(number: int, value: bytes | float) -> bytes:
    """A field of a protocol buffer: a message, string, integer or float32."""
    if isinstance(value, bytes):
        return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
    if isinstance(value, float):
        return _varint(number << 3 | _FLOAT) + struct.pack("<f", value)
    return _varint(number << 3 | _VARINT) + _varint(value)


def _varint(value: int) -> bytes:
    """An integer, seven bits a byte, the lowest first; a negative one as if of 64 bits."""
    value %= 1 << 64
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])
