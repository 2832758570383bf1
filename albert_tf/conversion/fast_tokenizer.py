"""The tokenizer.json of transformers: its settings, and the vocabulary in it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from absl import logging

from albert_tf.config_keys import check_keys
from albert_tf.conversion.rebuilt_vocabulary import frame, piece_settings, sentencepiece_model
from albert_tf.tokenizer_settings import (
    BYTE_LEVEL_BPE,
    SENTENCEPIECE,
    UNCHANGED,
    VOCABULARY_FILES,
    WORDPIECE,
)
from albert_tf.tokenizers.base import TokenIds
from albert_tf.tokenizers.byte_level_bpe import BytePairVocabulary
from albert_tf.utils.checks import check_type
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import dump_json, read_json

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
        self.file, self.values = file, read_json(file)
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
                return piece_settings(self.values)
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
            return {
                "lowercase": lowercase,
                "strip_accents": lowercase if strips is None else strips,
                "tokenize_chinese_chars": part["handle_chinese_chars"],
                "like_transformers": True,
            }

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

    def check_vocabulary(self, tokens: TokenIds) -> None:
        """InputError unless a vocabulary is that of the file."""
        same = [piece.rstrip() for piece in tokens.pieces] == [piece.rstrip() for piece in self.pieces]
        if same and isinstance(tokens, BytePairVocabulary):
            same = np.array_equal(tokens.merges, BytePairVocabulary(self.files(), str(self.file)).merges)
        if not same:
            raise InputError(f"{self.file}: its tokens are not those of {tokens.name}")

    def check_special_tokens(self, tokens: TokenIds, is_generic: bool) -> None:
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
