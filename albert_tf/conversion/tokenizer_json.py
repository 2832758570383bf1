"""Hugging Face's tokenizer.json, in and out."""

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
from albert_tf.text.byte_level_bpe import BytePairVocabulary
from albert_tf.text.sentencepiece import SENTENCEPIECE_SPECIAL_TOKENS
from albert_tf.text.text_tokenizer import Vocabulary
from albert_tf.text.tokenizer_config import (
    BYTE_LEVEL_BPE,
    SENTENCEPIECE,
    UNCHANGED,
    VOCABULARY_FILES,
    WORDPIECE,
)

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
    table = base64.b64encode(_charsmap(model)).decode()
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
        "added_tokens": [
            {"id": i, "content": name, **_ADDED} for i, name in enumerate(SENTENCEPIECE_SPECIAL_TOKENS)
        ],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, _WORDS]},
        "post_processor": {
            "type": "TemplateProcessing",
            **frame("[CLS]", "[SEP]", {name: i for i, name in enumerate(SENTENCEPIECE_SPECIAL_TOKENS)}),
        },
        "decoder": _WORDS,
        "model": {"type": "Unigram", "unk_id": _UNKNOWN_ID, "vocab": vocab, "byte_fallback": False},
    }


def _charsmap(model: bytes) -> bytes:
    """The table of the normalisation in a SentencePiece model; empty if there is none."""
    return _fields(_fields(model)[3][0]).get(2, [b""])[0]


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


def bert_settings(lowercase: bool, strip_accents: bool | None, chinese: bool) -> dict[str, bool]:
    """The settings of a BertTokenizer of transformers, which strips accents as it lowercases by default."""
    return {
        "lowercase": lowercase,
        "strip_accents": lowercase if strip_accents is None else strip_accents,
        "tokenize_chinese_chars": chinese,
        "like_transformers": True,
    }


def sentencepiece_model(values: Mapping[str, Any]) -> bytes:
    """The vocabulary in a tokenizer.json that transformers 5 wrote for an ALBERT, as a SentencePiece model.

    An InputError, or another error of Python, if it cannot be rebuilt exactly.
    """
    model = values["model"]
    pieces, scores = zip(*((piece, _score(piece, score)) for piece, score in model["vocab"]), strict=True)
    if model["unk_id"] != _UNKNOWN_ID or len(set(pieces)) < len(pieces):
        raise InputError("it is not a unigram model of distinct pieces with <unk> at id 1")
    if pieces[: len(SENTENCEPIECE_SPECIAL_TOKENS)] != SENTENCEPIECE_SPECIAL_TOKENS:
        raise InputError(f"its pieces do not begin with {', '.join(SENTENCEPIECE_SPECIAL_TOKENS)}")
    _, table = _normalizer(values["normalizer"])
    types = [_USER_DEFINED if score == 0 else _NORMAL for score in scores]
    types[: len(SENTENCEPIECE_SPECIAL_TOKENS)] = [_CONTROL] * len(SENTENCEPIECE_SPECIAL_TOKENS)
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


FAST_TOKENIZER = "tokenizer.json"

# The kinds of its parts, with the keys that are read, those of which only some values are possible here, and
# those that change no ids. What is not here, such as another normalizer, is refused by its type.
PARTS: Mapping[str, tuple[set[str], Mapping[str, tuple[Any, ...]], set[str]]] = {
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

    Raises:
      InputError: also its methods do: it is of another kind, or text would not become the same tokens here.
    """

    def __init__(self, file: Path):
        self.file, self.values = file, read_local_json(file)
        with self._reading():
            model = self.values["model"]
            guess = "BPE" if "merges" in model else "WordPiece"  # of older files, which name no type
            name = model.get("type") or ("Unigram" if isinstance(model["vocab"], list) else guess)
            kinds = {"WordPiece": WORDPIECE, "BPE": BYTE_LEVEL_BPE, "Unigram": SENTENCEPIECE}
            if name not in kinds:
                raise InputError(f"model is {name}, not {', '.join(kinds)}")
            self.kind = kinds[name]
            self._check(FAST_TOKENIZER, self.values)
            self._check(self.kind, model)
            for part in ("truncation", "padding"):
                self._check(part, self.values.get(part) or {})

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Errors in the block name the file."""
        try:
            yield
        except InputError as error:
            raise InputError(f"{self.file}: {error}") from error
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            raise InputError(f"{self.file} is not as transformers writes it: {error}") from error

    def _check(self, part: str, values: Mapping[str, Any]) -> None:
        check_keys(values, *PARTS[part], part, f"{FAST_TOKENIZER}, {part}")

    def _typed(self, name: str, type: str) -> Mapping[str, Any]:
        """A part of the file; InputError if it is of another type."""
        part = self.values[name] or {}
        if part.get("type") != type:
            raise InputError(f"{name} is {part.get('type', 'none')}, where tokenizers here have {type}")
        self._check(type, part)
        return part

    def settings(self, kind: str) -> dict[str, bool]:
        """The settings in the file, which has to be of this kind."""
        with self._reading():
            if kind != self.kind:
                raise InputError(f"it is {self.kind}, the vocabulary beside it {kind}")
            if kind == SENTENCEPIECE:
                _check_words(self.values["pre_tokenizer"] or {"type": "none"})
                return _normalizer(self.values["normalizer"])[0]
            if kind == BYTE_LEVEL_BPE:
                if self.values["normalizer"] is not None:
                    raise InputError(f"normalizer is {self.values['normalizer']}, where there is none here")
                part = self._typed("pre_tokenizer", "ByteLevel")
                return {**UNCHANGED, "add_prefix_space": part["add_prefix_space"]}
            self._typed("pre_tokenizer", "BertPreTokenizer")
            part = self._typed("normalizer", "BertNormalizer")
            lowercase, strips = part["lowercase"], part["strip_accents"]
            check_type("normalizer.lowercase", "bool", lowercase)
            check_type("normalizer.strip_accents", "bool | None", strips)
            check_type("normalizer.handle_chinese_chars", "bool", part["handle_chinese_chars"])
            return bert_settings(lowercase, strips, part["handle_chinese_chars"])

    @functools.cached_property
    def pieces(self) -> list[str]:
        """The pieces in the order of their ids."""
        with self._reading():
            model = self.values["model"]
            if self.kind == SENTENCEPIECE:
                return [piece for piece, _ in model["vocab"]]
            ids = {**model["vocab"], **{x["content"]: x["id"] for x in self.values["added_tokens"]}}
            if sorted(ids.values()) != list(range(len(ids))):
                raise InputError(f"its ids are not 0 to {len(ids) - 1}, each once")
            return sorted(ids, key=ids.__getitem__)

    def files(self) -> dict[str, bytes]:
        """The files of the vocabulary, by their names in a run."""
        with self._reading():
            if self.kind == SENTENCEPIECE:
                contents = [sentencepiece_model(self.values)]
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
        """Writes the vocabulary's files into a folder; returns the first. InputError for another size."""
        if len(self.pieces) != vocab_size:
            sizes = f"{len(self.pieces)} pieces, the config says vocab_size={vocab_size}"
            raise InputError(f"{self.file} has {sizes}")
        for name, content in self.files().items():
            (folder / name).write_bytes(content)
        return folder / VOCABULARY_FILES[self.kind][0]

    def check_vocabulary(self, tokens: Vocabulary) -> None:
        """InputError unless a vocabulary is that of the file."""
        same = [piece.rstrip() for piece in tokens.pieces] == [piece.rstrip() for piece in self.pieces]
        if same and isinstance(tokens, BytePairVocabulary):
            same = np.array_equal(tokens.merges, BytePairVocabulary(self.files(), str(self.file)).merges)
        if same and self.kind == SENTENCEPIECE:
            with self._reading():
                self._check_model(tokens)
        if not same:
            raise InputError(f"{self.file}: its tokens are not those of {tokens.name}")

    def _check_model(self, tokens: Vocabulary) -> None:
        """InputError unless scores and normalisation are those of a SentencePiece model with these pieces."""
        (content,) = tokens.files.values()
        if (unknown := self.values["model"]["unk_id"]) != _UNKNOWN_ID:
            raise InputError(f"unk_id is {unknown!r}, and {_UNKNOWN_ID} in {tokens.name}")
        processor = sentencepiece.SentencePieceProcessor(model_proto=content)
        for number, (piece, score) in enumerate(self.values["model"]["vocab"]):
            wanted = processor.get_score(number)
            if score not in (wanted, wanted - 100):  # as `_score` has it
                raise InputError(f"the score of {piece!r} is {score!r}, and {wanted!r} in {tokens.name}")
        if _normalizer(self.values["normalizer"])[1] != _charsmap(content):
            raise InputError(f"precompiled_charsmap is not that of {tokens.name}")

    def check_special_tokens(self, tokens: Vocabulary, is_generic: bool) -> None:
        """InputError if inputs have other special tokens, or tokens were added, at which texts would be cut.

        Args:
          tokens: its vocabulary.
          is_generic: True if the class of the tokenizer leaves to the file what stands around texts.
        """
        ids = dict(zip(tokens.special_pieces, tokens.special_ids, strict=True))
        start, end = (tokens.special_pieces[place] for place in (2, 3))
        pairs = {"sep": [end, ids[end]], "cls": [start, ids[start]]}
        with self._reading():
            for token in self.values["added_tokens"]:
                if ids.get(token["content"]) != token["id"]:
                    raise InputError(f"{token['content']!r} was added: texts are not cut at it here")
                is_mask = self.kind == BYTE_LEVEL_BPE and token["content"] == tokens.special_pieces[4]
                if is_mask and not token.get("lstrip"):
                    logging.warning("%s: the space before <mask> is a token there, none here", self.file)
            found = self.values.get("post_processor") or {}
            if not found and not is_generic:
                return
            framed, kind = frame(start, end, ids), found.get("type")
            if self.kind == BYTE_LEVEL_BPE:
                same = kind == "RobertaProcessing" and found.items() >= pairs.items()
            elif kind == "BertProcessing":
                same = found.items() >= pairs.items()
            else:
                same = kind == "TemplateProcessing" and {name: found[name] for name in framed} == framed
            if not same:
                raise InputError(f"post_processor is {kind or 'none'}, with other special tokens than here")
