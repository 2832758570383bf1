"""Reads and writes Hugging Face's tokenizer.json."""

from __future__ import annotations

import base64
import contextlib
import functools
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece
from absl import logging
from google.protobuf import empty_pb2, unknown_fields

from albert_tf.config_formats import check_keys
from albert_tf.errors import InputError, check_type
from albert_tf.io import dump_json, read_local_json
from albert_tf.runs.build_model import check_piece_count
from albert_tf.text.byte_level_bpe import BytePairVocabulary
from albert_tf.text.sentencepiece import SENTENCEPIECE_SPECIAL_TOKENS
from albert_tf.text.text_tokenizer import Vocabulary
from albert_tf.text.tokenizer_config import (
    BYTE_LEVEL_BPE,
    NO_NORMALIZATION,
    SENTENCEPIECE,
    VOCABULARY_FILES,
    WORDPIECE,
)

_PAD_ID, _UNKNOWN_ID = 0, 1  # in all of ALBERT's vocabularies

# From sentencepiece_model.proto: types of pieces, and wire types of fields. The compiled module in
# sentencepiece needs a newer protobuf than TensorFlow's.
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4
_VARINT, _BYTES, _FLOAT = 0, 2, 5
_UNIGRAM = 1

_QUOTE_REPLACEMENTS = [
    {"type": "Replace", "pattern": {"String": "``"}, "content": '"'},
    {"type": "Replace", "pattern": {"String": "''"}, "content": '"'},
]
_METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
_ADDED_TOKEN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def albert_tokenizer_json(model: bytes, tokenizer: Mapping[str, bool]) -> dict[str, Any]:
    """The tokenizer.json of transformers' AlbertTokenizer for a SentencePiece model.

    With only a spiece.model, transformers 5 splits off pieces such as "." before it finds the words, and the
    ▁ in front of them is lost.

    Args:
      model: content of the SentencePiece model's file.
      tokenizer: the settings `lowercase` and `strip_accents`, from tokenizer.json of a run.
    Raises:
      InputError: it is not a unigram model. AlbertTokenizer has only these.
    """
    fields = _decode_fields(model)
    if (kind := _decode_fields(fields[2][0]).get(3, [_UNIGRAM])[0]) != _UNIGRAM:
        raise InputError(f"model_type={kind} of the vocabulary: AlbertTokenizer has unigram models alone")
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocab = [[processor.id_to_piece(i), processor.get_score(i)] for i in range(len(processor))]
    table = base64.b64encode(_normalization_table(model)).decode()
    normalizers = [
        *_QUOTE_REPLACEMENTS,
        *({"type": name} for name in ("NFKD", "StripAccents") if tokenizer["strip_accents"]),
        *([{"type": "Lowercase"}] if tokenizer["lowercase"] else []),
        *([{"type": "Precompiled", "precompiled_charsmap": table}] if table else []),
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": i, "content": name, **_ADDED_TOKEN} for i, name in enumerate(SENTENCEPIECE_SPECIAL_TOKENS)
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, _METASPACE]},
        "post_processor": {
            "type": "TemplateProcessing",
            **special_token_template(
                "[CLS]", "[SEP]", {name: i for i, name in enumerate(SENTENCEPIECE_SPECIAL_TOKENS)}
            ),
        },
        "decoder": _METASPACE,
        "model": {"type": "Unigram", "unk_id": _UNKNOWN_ID, "vocab": vocab, "byte_fallback": False},
    }


def _normalization_table(model: bytes) -> bytes:
    """The normalisation table of a SentencePiece model; empty if it has none."""
    return _decode_fields(_decode_fields(model)[3][0]).get(2, [b""])[0]


def special_token_template(start: str, end: str, ids: Mapping[str, int]) -> dict[str, Any]:
    """The entries of a "TemplateProcessing" in tokenizer.json: special tokens around one text and two."""

    def special(name: str, type_id: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": type_id}}

    single = [special(start, 0), {"Sequence": {"id": "A", "type_id": 0}}, special(end, 0)]
    return {
        "single": single,
        "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}, special(end, 1)],
        "special_tokens": {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in (start, end)},
    }


def _decode_fields(message: bytes) -> dict[int, list[Any]]:
    """The values of a protocol buffer's fields by number."""
    values = dict[int, list[Any]]()
    for field in unknown_fields.UnknownFieldSet(empty_pb2.Empty.FromString(message)):
        values.setdefault(field.field_number, []).append(field.data)
    return values


def bert_settings(lowercase: bool, strip_accents: bool | None, chinese: bool) -> dict[str, bool]:
    """Our settings for a BertTokenizer of transformers. By default it strips accents if it lowercases."""
    return {
        "lowercase": lowercase,
        "strip_accents": lowercase if strip_accents is None else strip_accents,
        "tokenize_chinese_chars": chinese,
        "like_transformers": True,
    }


def rebuild_sentencepiece_model(values: Mapping[str, Any]) -> bytes:
    """Rebuilds the SentencePiece model from a tokenizer.json that transformers 5 wrote for an ALBERT.

    Raises:
      InputError: the model cannot be rebuilt exactly.
      KeyError, TypeError, ValueError and the like: the file has another structure.
    """
    model = values["model"]
    pieces, scores = zip(
        *((piece, _check_score(piece, score)) for piece, score in model["vocab"]), strict=True
    )
    if model["unk_id"] != _UNKNOWN_ID or len(set(pieces)) < len(pieces):
        raise InputError("it is not a unigram model of distinct pieces with <unk> at id 1")
    if pieces[: len(SENTENCEPIECE_SPECIAL_TOKENS)] != SENTENCEPIECE_SPECIAL_TOKENS:
        raise InputError(f"its pieces do not begin with {', '.join(SENTENCEPIECE_SPECIAL_TOKENS)}")
    _, table = _read_normalizer(values["normalizer"])
    types = [_USER_DEFINED if score == 0 else _NORMAL for score in scores]
    types[: len(SENTENCEPIECE_SPECIAL_TOKENS)] = [_CONTROL] * len(SENTENCEPIECE_SPECIAL_TOKENS)
    types[_UNKNOWN_ID] = _UNKNOWN
    content = b"".join(
        _encode_field(1, _encode_message({1: piece.encode(), 2: score, 3: kind}))
        for piece, score, kind in zip(pieces, scores, types, strict=True)
    )
    content += _encode_field(
        2, _encode_message({3: _UNIGRAM, 4: len(pieces), 40: _UNKNOWN_ID, 41: -1, 42: -1, 43: _PAD_ID})
    )
    # Add a space before the text, remove double spaces, and write spaces as ▁.
    return content + _encode_field(3, _encode_message({1: b"nmt_nfkc", 2: table, 3: 1, 4: 1, 5: 1}))


def _check_score(piece: str, score: float) -> float:
    """The score of a piece; InputError unless it is a float32, as in SentencePiece.

    transformers 4 subtracts 100 from the scores of pieces such as "9,".
    """
    if not -100 < score == float(np.float32(score)):
        raise InputError(f"the score of {piece!r}, {score!r}, is none of SentencePiece's")
    return float(score)


def _check_pre_tokenizer(settings: Mapping[str, Any]) -> None:
    """Raises InputError unless text is split at spaces, and each space becomes the ▁ before a word."""
    parts = settings["pretokenizers"] if settings["type"] == "Sequence" else [settings]
    *before, last = (part["type"] for part in parts)
    is_known = last == "Metaspace" and before in ([], ["WhitespaceSplit"])
    # Older files have `add_prefix_space` instead.
    prepends = parts[-1].get("prepend_scheme", "always" if parts[-1].get("add_prefix_space") else "never")
    if not is_known or (parts[-1]["replacement"], prepends) != ("▁", "always"):
        raise InputError(f"pre_tokenizer is {settings}")


def _read_normalizer(settings: Mapping[str, Any] | None) -> tuple[dict[str, bool], bytes]:
    """Our settings and SentencePiece's normalisation table; InputError for a normaliser unlike ALBERT's."""
    steps = (settings or {}).get("normalizers", [settings] if settings else [])
    kinds = [step["type"] for step in steps if step not in _QUOTE_REPLACEMENTS]
    strip_accents, lowercase = "StripAccents" in kinds, "Lowercase" in kinds
    has_table = "Precompiled" in kinds  # SentencePiece's `identity` has none
    expected = ["NFKD", "StripAccents"] * strip_accents + ["Lowercase"] * lowercase
    expected += ["Precompiled"] * has_table
    if kinds != expected:
        raise InputError(f"normalizer is {', '.join(kinds) or 'none'}, not {', '.join(expected) or 'none'}")
    table = next((step["precompiled_charsmap"] for step in steps if step["type"] == "Precompiled"), "")
    return {"lowercase": lowercase, "strip_accents": strip_accents}, base64.b64decode(table, validate=True)


def _encode_message(fields: Mapping[int, bytes | float]) -> bytes:
    """Encodes a protocol buffer."""
    return b"".join(_encode_field(number, value) for number, value in fields.items())


def _encode_field(number: int, value: bytes | float) -> bytes:
    """Encodes a field of a protocol buffer: a message, string, integer or float32."""
    if isinstance(value, bytes):
        return _encode_varint(number << 3 | _BYTES) + _encode_varint(len(value)) + value
    if isinstance(value, float):
        return _encode_varint(number << 3 | _FLOAT) + struct.pack("<f", value)
    return _encode_varint(number << 3 | _VARINT) + _encode_varint(value)


def _encode_varint(value: int) -> bytes:
    """Encodes an integer: seven bits per byte, lowest first; a negative one in 64-bit two's complement."""
    value %= 1 << 64
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _encode_varint(value >> 7)


FAST_TOKENIZER = "tokenizer.json"

# For each type of part: keys that are read; keys with their only allowed values; keys that are ignored, since
# they do not change the ids. Other types are errors.
PART_KEYS: Mapping[str, tuple[set[str], Mapping[str, tuple[Any, ...]], set[str]]] = {
    FAST_TOKENIZER: (
        {"added_tokens", "model", "normalizer", "padding", "post_processor", "pre_tokenizer", "truncation"},
        {},
        {"version", "decoder"},
    ),
    "truncation": (set(), {"direction": ("Right",)}, {"max_length", "strategy", "stride"}),
    "padding": (
        set(),
        {"direction": ("Right",)},
        {"strategy", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"},
    ),
    "BertNormalizer": (
        {"handle_chinese_chars", "lowercase", "strip_accents", "type"},
        {"clean_text": (True,)},
        set(),
    ),
    "BertPreTokenizer": ({"type"}, {}, set()),
    "ByteLevel": ({"add_prefix_space", "type"}, {"use_regex": (True,)}, {"trim_offsets"}),
    WORDPIECE: (
        {"type", "vocab"},
        {
            "unk_token": ("[UNK]",),
            "continuing_subword_prefix": ("##",),
            "max_input_chars_per_word": (100,),
        },
        set(),
    ),
    BYTE_LEVEL_BPE: (
        {"merges", "type", "vocab"},
        {
            **{"dropout": (None, 0), "byte_fallback": (False,), "ignore_merges": (False,)},
            **dict.fromkeys(("continuing_subword_prefix", "end_of_word_suffix"), (None, "")),
        },
        {"unk_token", "fuse_unk"},  # every byte is a token
    ),
    SENTENCEPIECE: ({"type", "unk_id", "vocab"}, {"byte_fallback": (None, False)}, set()),
}


class FastTokenizer:
    """A tokenizer.json of transformers.

    Args:
      file: path of the tokenizer.json.
    Raises:
      InputError: the file is damaged or has another kind, or our tokenizer would return other tokens. The
        methods raise it, too.
    """

    def __init__(self, file: Path):
        self.file, self.values = file, read_local_json(file)
        with self._add_file_to_errors():
            model = self.values["model"]
            guess = "BPE" if "merges" in model else "WordPiece"  # for older files without a type
            name = model.get("type") or ("Unigram" if isinstance(model["vocab"], list) else guess)
            kinds = {"WordPiece": WORDPIECE, "BPE": BYTE_LEVEL_BPE, "Unigram": SENTENCEPIECE}
            if name not in kinds:
                raise InputError(f"model is {name}, not {', '.join(kinds)}")
            self.kind = kinds[name]
            self._check_keys(FAST_TOKENIZER, self.values)
            self._check_keys(self.kind, model)
            for part in ("truncation", "padding"):
                self._check_keys(part, self.values.get(part) or {})

    @contextlib.contextmanager
    def _add_file_to_errors(self) -> Iterator[None]:
        """Adds the file to the errors of the block."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.file}: {error}") from error
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise InputError(f"{self.file} is not as transformers writes it: {error}") from error

    def _check_keys(self, part: str, values: Mapping[str, Any]) -> None:
        check_keys(values, *PART_KEYS[part], part, f"{FAST_TOKENIZER}, {part}")

    def _read_part(self, name: str, type: str) -> Mapping[str, Any]:
        """The part of the file with this name; InputError if it has another type."""
        part = self.values[name] or {}
        if part.get("type") != type:
            raise InputError(f"{name} is {part.get('type', 'none')}, where tokenizers here have {type}")
        self._check_keys(type, part)
        return part

    def settings(self, kind: str) -> dict[str, bool]:
        """Our settings for the file; InputError if the file has another kind."""
        with self._add_file_to_errors():
            if kind != self.kind:
                raise InputError(f"it is {self.kind}, the vocabulary beside it {kind}")
            if kind == SENTENCEPIECE:
                _check_pre_tokenizer(self.values["pre_tokenizer"] or {"type": "none"})
                return _read_normalizer(self.values["normalizer"])[0]
            if kind == BYTE_LEVEL_BPE:
                if self.values["normalizer"] is not None:
                    raise InputError(f"normalizer is {self.values['normalizer']}, where there is none here")
                part = self._read_part("pre_tokenizer", "ByteLevel")
                return {**NO_NORMALIZATION, "add_prefix_space": part["add_prefix_space"]}
            self._read_part("pre_tokenizer", "BertPreTokenizer")
            part = self._read_part("normalizer", "BertNormalizer")
            lowercase, strips = part["lowercase"], part["strip_accents"]
            check_type("normalizer.lowercase", "bool", lowercase)
            check_type("normalizer.strip_accents", "bool | None", strips)
            check_type("normalizer.handle_chinese_chars", "bool", part["handle_chinese_chars"])
            return bert_settings(lowercase, strips, part["handle_chinese_chars"])

    @functools.cached_property
    def pieces(self) -> list[str]:
        """The pieces in the order of their ids."""
        with self._add_file_to_errors():
            model = self.values["model"]
            if self.kind == SENTENCEPIECE:
                return [piece for piece, _ in model["vocab"]]
            ids = {**model["vocab"], **{x["content"]: x["id"] for x in self.values["added_tokens"]}}
            if sorted(ids.values()) != list(range(len(ids))):
                raise InputError(f"its ids are not 0 to {len(ids) - 1}, each once")
            return sorted(ids, key=ids.__getitem__)

    def files(self) -> dict[str, bytes]:
        """The contents of the vocabulary's files by name."""
        with self._add_file_to_errors():
            if self.kind == SENTENCEPIECE:
                contents = [rebuild_sentencepiece_model(self.values)]
            elif self.kind == WORDPIECE:
                contents = ["".join(f"{piece}\n" for piece in self.pieces).encode()]
            else:
                ids = {piece: number for number, piece in enumerate(self.pieces)}
                merges = self.values["model"]["merges"]
                pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in merges]
                lines = "".join(f"{line}\n" for line in ("#version: 0.2", *pairs))
                contents = [dump_json(ids).encode(), lines.encode()]
            return dict(zip(VOCABULARY_FILES[self.kind], contents, strict=True))

    def write_vocabulary(self, folder: Path, vocab_size: int) -> Path:
        """Writes the vocabulary's files and returns the path of the first; InputError if it does not fit."""
        check_piece_count(str(self.file), len(self.pieces), vocab_size, exactly=True)
        for name, content in self.files().items():
            (folder / name).write_bytes(content)
        return folder / VOCABULARY_FILES[self.kind][0]

    def check_vocabulary(self, tokens: Vocabulary) -> None:
        """Raises InputError unless the file has this vocabulary."""
        same = [piece.rstrip() for piece in tokens.pieces] == [piece.rstrip() for piece in self.pieces]
        if same and isinstance(tokens, BytePairVocabulary):
            same = np.array_equal(tokens.merges, BytePairVocabulary(self.files(), str(self.file)).merges)
        if same and self.kind == SENTENCEPIECE:
            with self._add_file_to_errors():
                self._check_model(tokens)
        if not same:
            raise InputError(f"{self.file}: its tokens are not those of {tokens.name}")

    def _check_model(self, tokens: Vocabulary) -> None:
        """Raises InputError unless the file has the scores and normalisation of this SentencePiece model."""
        (content,) = tokens.files.values()
        if (unknown := self.values["model"]["unk_id"]) != _UNKNOWN_ID:
            raise InputError(f"unk_id is {unknown!r}, and {_UNKNOWN_ID} in {tokens.name}")
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        for number, (piece, score) in enumerate(self.values["model"]["vocab"]):
            expected = processor.get_score(number)
            if score not in (expected, expected - 100):  # see `_check_score`
                raise InputError(f"the score of {piece!r} is {score!r}, and {expected!r} in {tokens.name}")
        if _read_normalizer(self.values["normalizer"])[1] != _normalization_table(content):
            raise InputError(f"precompiled_charsmap is not that of {tokens.name}")

    def check_special_tokens(self, tokens: Vocabulary, is_generic: bool) -> None:
        """Raises InputError for other special tokens around texts, and for added tokens, which split texts.

        Args:
          tokens: the vocabulary of the file.
          is_generic: True if the tokenizer's class takes the special tokens around texts from the file.
        """
        ids = dict(zip(tokens.special_pieces, tokens.special_ids, strict=True))
        start, end = (tokens.special_pieces[place] for place in (2, 3))
        pairs = {"sep": [end, ids[end]], "cls": [start, ids[start]]}
        with self._add_file_to_errors():
            for token in self.values["added_tokens"]:
                if ids.get(token["content"]) != token["id"]:
                    raise InputError(f"{token['content']!r} was added: texts are not cut at it here")
                is_mask = self.kind == BYTE_LEVEL_BPE and token["content"] == tokens.special_pieces[4]
                if is_mask and not token.get("lstrip"):
                    logging.warning("%s: the space before <mask> is a token there, none here", self.file)
            processor = self.values.get("post_processor") or {}
            if not processor and not is_generic:
                return
            template, kind = special_token_template(start, end, ids), processor.get("type")
            if self.kind == BYTE_LEVEL_BPE:
                same = kind == "RobertaProcessing" and processor.items() >= pairs.items()
            elif kind == "BertProcessing":
                same = processor.items() >= pairs.items()
            else:
                same = kind == "TemplateProcessing" and {key: processor[key] for key in template} == template
            if not same:
                raise InputError(f"post_processor is {kind or 'none'}, with other special tokens than here")
