"""A SentencePiece vocabulary with the ids that ALBERT reserves: read, checked, its pieces as tables."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from pathlib import Path

import numpy as np
import sentencepiece

from albert_tf.tokenizers.input_format import ALBERT_IDS, InputFormat, SpecialIds
from albert_tf.utils.errors import InputError, Missing

FILE_OF_RUN = "spiece.model"  # the name of a SentencePiece model in a run directory

PAD, UNKNOWN, CLS, SEP, MASK = SPECIAL_PIECES = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")

_SPACE = "▁"  # U+2581, how SentencePiece spells a space
_MARKS = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~€£')
_LETTERS_AND_MARKS = _MARKS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def starts_word(piece: str) -> bool:
    """True if a piece begins a word, for masking of whole words.

    That is a piece that begins with ▁ or <, is one punctuation mark, or holds a character that is neither an
    ASCII letter nor such a mark: digits and other scripts are words piece by piece.

    Source: google-research/albert, `_is_start_piece_sp` in create_pretraining_data.py.
    """
    return piece[:1] in ("▁", "<") or piece in _MARKS or not _LETTERS_AND_MARKS.issuperset(piece)


@dataclasses.dataclass(frozen=True)
class Vocabulary:
    """`TokenIds` of a SentencePiece model file, whole in memory: the file may go away."""

    model: bytes = dataclasses.field(repr=False)  # the bytes of the file
    pieces: tuple[str, ...] = dataclasses.field(repr=False)  # in the order of their ids
    # bool [V]; False for control pieces, `<unk>` and unused ones, which no text contains
    ordinary: np.ndarray = dataclasses.field(repr=False, compare=False)

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Vocabulary:
        """The vocabulary in a model file with 0 `<pad>`, 1 `<unk>`, 2 `[CLS]`, 3 `[SEP]`, 4 `[MASK]`.

        Raises:
          FileNotFoundError: the file does not exist.
          InputError: it is not a SentencePiece model, or has another piece at one of the five ids.
        """
        path = Path(path)
        if path.is_dir():
            raise InputError(f"{path} is a folder: name the vocabulary in it, such as {path / FILE_OF_RUN}")
        if not path.is_file():
            raise Missing(f"{path}: no such vocabulary; `albert-tf vocab` trains one")
        return cls.from_bytes(path.read_bytes(), name=os.fspath(path))

    @classmethod
    def from_bytes(cls, model: bytes, name: str = "the vocabulary") -> Vocabulary:
        """The vocabulary that the content of a `.model` file describes; `name` stands in its errors."""
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(model)
        except RuntimeError:
            raise InputError(f"{name} is not a SentencePiece model") from None
        ids = range(processor.get_piece_size())
        pieces = tuple(processor.id_to_piece(i) for i in ids)
        for expected, piece in zip(ALBERT_IDS, SPECIAL_PIECES, strict=True):
            if pieces[expected : expected + 1] != (piece,):
                found = f"stands at id {pieces.index(piece)}" if piece in pieces else "is missing"
                raise InputError(
                    f"{name}: {piece} {found} and must be at id {expected}; "
                    "`albert-tf vocab` trains a vocabulary with ALBERT's ids"
                )
        special = [processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i) for i in ids]
        return cls(model, pieces, ~np.array(special))

    def __len__(self) -> int:
        """The number of pieces, V."""
        return len(self.pieces)

    @functools.cached_property
    def special_ids(self) -> SpecialIds:
        """The ids of its special pieces."""
        return SpecialIds(*map(self.pieces.index, SPECIAL_PIECES))

    @functools.cached_property
    def input_format(self) -> InputFormat:
        """The special tokens around segments."""
        return InputFormat.of_bert(self.special_ids)

    @functools.cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the model file, in hexadecimal."""
        return hashlib.sha256(self.model).hexdigest()

    @functools.cached_property
    def starts_word(self) -> np.ndarray:
        """`starts_word` of each piece, bool [V]."""
        return np.array([starts_word(piece) for piece in self.pieces])

    @functools.cached_property
    def ordinary_ids(self) -> np.ndarray:
        """The ids of the pieces that text can consist of, ascending int32."""
        return np.flatnonzero(self.ordinary).astype(np.int32)

    @property
    def texts(self) -> np.ndarray:
        """The pieces without the space before a word, string [V]; ▁ for the piece that is a space alone."""
        return np.array([piece.replace(_SPACE, " ").strip() or piece for piece in self.pieces], object)

    @property
    def space_id(self) -> int:
        """The id of the piece that is a space alone; -1 where there is none."""
        return self.pieces.index(_SPACE) if _SPACE in self.pieces else -1
