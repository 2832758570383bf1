"""SentencePiece models and transformers' tokenizer.json: each from the other.

transformers 5 writes no `spiece.model` beside its own form of a tokenizer. That form holds the pieces, scores
and table of normalisation; what it does not hold is known of an ALBERT's. The vocabularies of other kinds are
in `fast_tokenizer`.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import sentencepiece
from google.protobuf import empty_pb2, unknown_fields

from albert_tf.tokenizers.sentencepiece import SPECIAL_PIECES
from albert_tf.utils.errors import InputError

_PAD_ID, _UNKNOWN_ID = 0, 1  # as all of ALBERT's vocabularies have them

# Of sentencepiece_model.proto: types of pieces, and the types that a field can have on the wire. The module
# that sentencepiece has of it needs a newer protobuf than TensorFlow's.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_VARINT, _BYTES, _FLOAT = 0, 2, 5
_UNIGRAM = 1

_REPLACED = [
    {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
    {"type": "Replace", "pattern": {"String": "''"}, "content": '"'},
]
_WORDS = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
_ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def albert_tokenizer(model: bytes, tokenizer: Mapping[str, bool]) -> dict[str, Any]:
    """The tokenizer.json for a SentencePiece model, in the form of transformers' AlbertTokenizer.

    Of a spiece.model alone transformers 5 cuts pieces such as "." out of a text before it finds the words,
    and the ▁ in front of them is lost.

    Args:
      model: the content of its file.
      tokenizer: how text is normalised, as tokenizer.json of a run has it.
    Raises:
      InputError: it is not a unigram model, as AlbertTokenizer is.
    """
    fields = _fields(model)
    if (kind := _fields(fields[2][0]).get(3, [_UNIGRAM])[0]) != _UNIGRAM:
        raise InputError(f"model_type={kind} of the vocabulary: AlbertTokenizer has unigram models alone")
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocab = [[processor.id_to_piece(i), processor.get_score(i)] for i in range(len(processor))]
    table = base64.b64encode(_fields(fields[3][0]).get(2, [b""])[0]).decode()
    normalizers = [
        *_REPLACED,
        *({"type": name} for name in ("NFKD", "StripAccents") if tokenizer["strip_accents"]),
        *([{"type": "Lowercase"}] if tokenizer["lowercase"] else []),
        *([{"type": "Precompiled", "precompiled_charsmap": table}] if table else []),
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": name, **_ADDED} for i, name in enumerate(SPECIAL_PIECES)],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, _WORDS]},
        "post_processor": {
            "type": "TemplateProcessing",
            **frame("[CLS]", "[SEP]", {name: i for i, name in enumerate(SPECIAL_PIECES)}),
        },
        "decoder": _WORDS,
        "model": {"type": "Unigram", "unk_id": _UNKNOWN_ID, "vocab": vocab, "byte_fallback": False},
    }


def frame(start: str, end: str, ids: Mapping[str, int]) -> dict[str, Any]:
    """The special tokens around one text and two, as a "TemplateProcessing" of tokenizer.json has them."""

    def special(name: str, type_id: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": type_id}}

    single = [special(start, 0), {"Sequence": {"id": "A", "type_id": 0}}, special(end, 0)]
    return {
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}, special(end, 1)],
        "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (start, end)},
    }


def _fields(message: bytes) -> dict[int, list[Any]]:
    """The values of a protocol buffer's fields by number."""
    found = dict[int, list[Any]]()
    for field in unknown_fields.UnknownFieldSet(empty_pb2.Empty.FromString(message)):
        found.setdefault(field.field_number, []).append(field.data)
    return found


def piece_settings(values: Mapping[str, Any]) -> dict[str, bool]:
    """The settings in a tokenizer.json of an ALBERT; InputError if it has others than are here."""
    _check_words(values["pre_tokenizer"] or {"type": "none"})
    return _normalizer(values["normalizer"])[0]


def sentencepiece_model(values: Mapping[str, Any]) -> bytes:
    """The vocabulary in a tokenizer.json that transformers 5 wrote for an ALBERT, as a SentencePiece model.

    An InputError, or another error of Python, if it cannot be rebuilt exactly.
    """
    model = values["model"]
    pieces, scores = zip(*((piece, _score(piece, score)) for piece, score in model["vocab"]), strict=True)
    if model["unk_id"] != _UNKNOWN_ID or len(set(pieces)) < len(pieces):
        raise InputError("it is not a unigram model of distinct pieces with <unk> at id 1")
    if pieces[: len(SPECIAL_PIECES)] != SPECIAL_PIECES:
        raise InputError(f"its pieces do not begin with {', '.join(SPECIAL_PIECES)}")
    _, table = _normalizer(values["normalizer"])
    types = [_USER_DEFINED if score == 0 else _NORMAL for score in scores]
    types[: len(SPECIAL_PIECES)] = [_CONTROL] * len(SPECIAL_PIECES)
    types[_UNKNOWN_ID] = _UNKNOWN
    content = b"".join(
        _field(1, _message({1: piece.encode(), 2: score, 3: kind}))
        for piece, score, kind in zip(pieces, scores, types, strict=True)
    )
    content += _field(
        2, _message({3: _UNIGRAM, 4: len(pieces), 40: _UNKNOWN_ID, 41: -1, 42: -1, 43: _PAD_ID})
    )
    # A space before the text, single spaces, and these as ▁.
    return content + _field(3, _message({1: b"nmt_nfkc", 2: table, 3: 1, 4: 1, 5: 1}))


def _score(piece: str, score: float) -> float:
    """The score of a piece; InputError if it is none of SentencePiece's, which are of float32.

    transformers 4 takes 100 from those of pieces such as "9,".
    """
    if not -100 < score == float(np.float32(score)):
        raise InputError(f"the score of {piece!r}, {score!r}, is none of SentencePiece's")
    return float(score)


def _check_words(settings: Mapping[str, Any]) -> None:
    """InputError unless text is divided at spaces, each of which becomes the ▁ before a word."""
    parts = settings["pretokenizers"] if settings["type"] == "Sequence" else [settings]
    *before, last = (part["type"] for part in parts)
    is_known = last == "Metaspace" and before in ([], ["WhitespaceSplit"])
    # Older files say so otherwise.
    prepends = parts[-1].get("prepend_scheme", "always" if parts[-1].get("add_prefix_space") else "never")
    if not is_known or (parts[-1]["replacement"], prepends) != ("▁", "always"):
        raise InputError(f"pre_tokenizer is {settings}")


def _normalizer(settings: Mapping[str, Any] | None) -> tuple[dict[str, bool], bytes]:
    """Settings and SentencePiece's table of the normalisation; InputError unless they are an ALBERT's."""
    steps = (settings or {}).get("normalizers", [settings] if settings else [])
    kinds = [step["type"] for step in steps if step not in _REPLACED]
    strip_accents, lowercase = "StripAccents" in kinds, "Lowercase" in kinds
    expected = ["NFKD", "StripAccents"] * strip_accents + ["Lowercase"] * lowercase + ["Precompiled"]
    if kinds != expected:
        raise InputError(f"normalizer is {', '.join(kinds) or 'none'}, not {', '.join(expected)}")
    table = next(step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled")
    return {"lowercase": lowercase, "strip_accents": strip_accents}, base64.b64decode(table, validate=True)


def _message(fields: Mapping[int, bytes | float]) -> bytes:
    """The content of a protocol buffer."""
    return b"".join(_field(number, value) for number, value in fields.items())


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
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _varint(value >> 7)
