"""A SentencePiece vocabulary with the ids that ALBERT reserves: read, checked, its pieces as tables."""

from __future__ import annotations

import numpy as np
import sentencepiece

from albert_tf.tokenizer_settings import SENTENCEPIECE
from albert_tf.tokenizers.base import TokenIds
from albert_tf.tokenizers.input_format import ALBERT_IDS
from albert_tf.utils.errors import InputError

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


class Vocabulary(TokenIds):
    """A SentencePiece model with 0 `<pad>`, 1 `<unk>`, 2 `[CLS]`, 3 `[SEP]`, 4 `[MASK]`."""

    kind = SENTENCEPIECE
    special_pieces = SPECIAL_PIECES

    @classmethod
    def from_bytes(cls, model: bytes) -> Vocabulary:
        """The vocabulary that the content of a `.model` file describes."""
        return cls({FILE_OF_RUN: model})

    def _read(self) -> tuple[str, ...]:
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(self.files[FILE_OF_RUN])
        except RuntimeError:
            raise InputError(f"{self.name} is not a SentencePiece model") from None
        ids = range(processor.get_piece_size())
        pieces = tuple(processor.id_to_piece(i) for i in ids)
        for expected, piece in zip(ALBERT_IDS, SPECIAL_PIECES, strict=True):
            if pieces[expected : expected + 1] != (piece,):
                raise InputError(
                    f"{self.name}: {piece} must be at id {expected}; `albert-tf vocab` trains a vocabulary "
                    "with ALBERT's ids"
                )
        special = [processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i) for i in ids]
        self.ordinary_ids = np.flatnonzero(~np.array(special)).astype(np.int32)
        self.starts_word = np.array([starts_word(piece) for piece in pieces])
        self.space_id = pieces.index(_SPACE) if _SPACE in pieces else -1
        return pieces

    @property
    def texts(self) -> np.ndarray:
        """The pieces without the space before a word, string [V]; ▁ for the piece that is a space alone."""
        return np.array([piece.replace(_SPACE, " ").strip() or piece for piece in self.pieces], object)
