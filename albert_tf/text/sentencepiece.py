"""SentencePiece: ALBERT's tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import sentencepiece
import tensorflow as tf
import tensorflow_text as tf_text
from tensorflow_text.python.ops import sentencepiece_tokenizer

from albert_tf.constants import TRUNCATE
from albert_tf.errors import InputError
from albert_tf.text.bounded_texts import LEAST_BYTES, Gaps, make_squeeze_patterns, squeeze_runs
from albert_tf.text.offsets import normalize_with_offsets, rows_of
from albert_tf.text.text_tokenizer import (
    ALBERT_IDS,
    TAIL,
    TextTokenizer,
    Tokenize,
    TokensWithOffsets,
    Vocabulary,
    trace_once,
)
from albert_tf.text.tokenizer_config import SENTENCEPIECE, VOCABULARY_FILES


def normalize(text: tf.Tensor, lowercase: bool = True, strip_accents: bool = True) -> tf.Tensor:
    """Normalises text, both for training a vocabulary and for tokenising.

    The order matters: accents go first, because case folding composes the characters that NFD has taken
    apart. Case folding is Unicode's NFKC_Casefold, which also drops invisible characters (U+00AD, U+200B). A
    cased vocabulary needs no further clean-up: SentencePiece's own normaliser, nmt_nfkc, then applies NFKC,
    which composes the characters again.

    Args:
      text: UTF-8 strings of any shape; bytes that are not UTF-8 stay as they are.
      lowercase: True folds case.
      strip_accents: True drops the combining marks of NFD (category Mn).
    Source: the published `albert_en_preprocess/3`, where both are True.
    """
    if strip_accents:
        text = tf_text.normalize_utf8(text, "NFD")
        text = tf.strings.regex_replace(text, r"\p{Mn}", "")
    if lowercase:
        text = tf_text.case_fold_utf8(text)
    return text


(SENTENCEPIECE_FILE,) = VOCABULARY_FILES[SENTENCEPIECE]
SENTENCEPIECE_SPECIAL_TOKENS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")

# In longer texts the rounding of large float32 sums decides more than ties.
_MAX_TOKENS = 512

# Characters that are dropped or become a space, as classes of regular expressions. The models' own
# normalisation, nmt_nfkc, drops controls and turns spaces, and the invisible characters that case folding has
# not dropped, into spaces.
_CONTROLS = r"\x01-\x08\x0B\x0E-\x1F\x7F\x{8F}\x{9F}"
_SPACES = r"\t\n\f\r\p{Z}"
_INVISIBLE = r"\x{200B}-\x{200F}\x{FEFF}"
_IGNORABLE = (
    r"\x{AD}\x{34F}\x{61C}\x{180B}-\x{180F}\x{202A}-\x{202E}\x{2060}-\x{206F}\x{FE00}-\x{FE0F}"
    r"\x{FFF0}-\x{FFF8}\x{1BCA0}-\x{1BCA3}\x{1D173}-\x{1D17A}\x{E0000}-\x{E0FFF}"
)

_SPACE = "▁"  # U+2581, how SentencePiece spells a space
_NO_UTF8 = "\ufffd"  # stands for bytes that are not UTF-8
_MARKS = frozenset('!"#$%&()*+,-./:;?@[\\]^_`{|}~€£')
_LETTERS_AND_MARKS = _MARKS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def starts_word(piece: str) -> bool:
    """True if a piece begins a word, for masking of whole words.

    Such a piece begins with ▁ or <, is one punctuation mark, or has a character that is neither an ASCII
    letter nor such a mark. So each piece of digits or of another script is a word.
    Source: google-research/albert, `_is_start_piece_sp` in create_pretraining_data.py.
    """
    return piece[:1] in ("▁", "<") or piece in _MARKS or not _LETTERS_AND_MARKS.issuperset(piece)


class SentencePieceVocabulary(Vocabulary):
    """A SentencePiece model with 0 `<pad>`, 1 `<unk>`, 2 `[CLS]`, 3 `[SEP]`, 4 `[MASK]`."""

    kind = SENTENCEPIECE
    special_pieces = SENTENCEPIECE_SPECIAL_TOKENS
    has_all_characters: bool  # True if each character of a piece is a piece, too, and none is _NO_UTF8

    def _read(self) -> tuple[str, ...]:
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(self.files[SENTENCEPIECE_FILE])
        except RuntimeError:
            raise InputError(f"{self.name} is not a SentencePiece model; WordPiece's is vocab.txt") from None
        ids = range(processor.get_piece_size())
        pieces = tuple(processor.id_to_piece(i) for i in ids)
        for expected, piece in zip(ALBERT_IDS, SENTENCEPIECE_SPECIAL_TOKENS, strict=True):
            if pieces[expected : expected + 1] != (piece,):
                remedy = "`albert-tf vocab` trains a vocabulary with ALBERT's ids"
                raise InputError(f"{self.name}: {piece} must be at id {expected}; {remedy}")
        special = [processor.is_control(i) or processor.is_unknown(i) or processor.is_unused(i) for i in ids]
        self.ordinary_ids = np.flatnonzero(~np.array(special)).astype(np.int32)
        ordinary = (pieces[i] for i in self.ordinary_ids)
        self.has_all_characters = set("".join(ordinary)) <= set(pieces) - {_NO_UTF8}
        self.starts_word = np.array([starts_word(piece) for piece in pieces])
        self.space_id = pieces.index(_SPACE) if _SPACE in pieces else -1
        return pieces

    @property
    def texts(self) -> np.ndarray:
        """The pieces without the space before a word, string [V]; ▁ for the piece that is a space alone."""
        return np.array([piece.replace(_SPACE, " ").strip() or piece for piece in self.pieces], object)


class SentencePieceTokenizer(TextTokenizer):
    """Tokenizer of ALBERT, by SentencePiece. Bytes that are not UTF-8 become `<unk>`."""

    kind = SENTENCEPIECE
    vocabulary: SentencePieceVocabulary
    vocabulary_class = SentencePieceVocabulary
    normalize = staticmethod(normalize)

    def __init__(self, vocabulary: Vocabulary, **settings: bool):
        super().__init__(vocabulary, **settings)
        model = vocabulary.files[SENTENCEPIECE_FILE]
        self._sentencepiece = tf_text.SentencepieceTokenizer(model=model, out_type=tf.int32)
        self._sentencepiece._model_resource = _NamedModel(model, vocabulary.fingerprint)

    @property
    def squeeze_patterns(self) -> Iterable[tuple[str, str]]:
        """See `TextTokenizer`. The patterns fit models that normalise as those of `train_vocabulary`."""
        dropped = _CONTROLS + (_INVISIBLE + _IGNORABLE if self.lowercase else "")
        dropped += r"\p{Mn}" if self.strip_accents else ""
        spaces = _SPACES + ("" if self.lowercase else _INVISIBLE)
        unknown = (r"\x00{2,}", "\0")  # a row of NULs is one token
        return *make_squeeze_patterns(dropped, spaces), unknown

    @trace_once
    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `TextTokenizer`."""
        return self._sentencepiece.tokenize(self._squeeze_runs(self._normalize(text))[0])

    @trace_once
    def tokenize_shortened(self, text: tf.Tensor, num_tokens: int, long: str = TRUNCATE) -> tf.RaggedTensor:
        """See `TextTokenizer`."""
        if long not in (TRUNCATE, TAIL) or self._max_bytes(num_tokens) > LEAST_BYTES:
            return super().tokenize_shortened(text, num_tokens, long)
        # Too short for `_squeeze_runs`, whose graph would take a fifth of the time to the first answer.
        return self._sentencepiece.tokenize(self._normalize(self.shorten_text(text, num_tokens, long)))

    @trace_once
    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """See `TextTokenizer`."""
        normalized, source = normalize_with_offsets(text, self._normalize)
        squeezed, gaps = self._squeeze_runs(normalized)
        tokens, starts, limits = self._sentencepiece.tokenize_with_offsets(squeezed)
        rows = rows_of(tokens.row_splits)
        places = (tf.cast(ragged.values, tf.int64) for ragged in (starts, limits))
        return tokens, *source.spans(tokens, *(gaps.original_positions(rows, x) for x in places))

    def _squeeze_runs(self, text: tf.Tensor) -> tuple[tf.Tensor, Gaps]:
        if not self.vocabulary.has_all_characters:  # unknown characters may form a known piece
            return text, Gaps.none()
        return squeeze_runs(text, self._sentencepiece.tokenize)

    def detokenize(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """See `TextTokenizer`. SentencePiece leaves `[MASK]` out; `<unk>` becomes ⁇."""
        return self._sentencepiece.detokenize(tokens)

    def fast_tokenizer(self) -> Tokenize:
        """See `TextTokenizer`."""
        return FastSentencePieceTokenizer(self.vocabulary, **self.settings)


class _NamedModel(sentencepiece_tokenizer._SentencepieceModelResource):
    """TF Text's SentencePiece model, as a resource with a name.

    A resource without a name belongs to the op that made it. `tf.random.set_seed` clears TensorFlow's cache
    of ops, and so would take the model away from every tokenizer and pipeline in use.
    """

    def __init__(self, model: bytes, fingerprint: str):
        self._shared_name = f"albert_tf/{fingerprint}"
        super().__init__(model, name=None)

    def _create_resource(self) -> tf.Tensor:
        return sentencepiece_tokenizer.gen_sentencepiece_tokenizer.sentencepiece_op(
            model=self._model, shared_name=self._shared_name
        )


def repeated_unit(piece: str) -> str:
    """The shortest string that a piece repeats.

    >>> [repeated_unit(piece) for piece in ("66", "haha", "hat")]
    ['6', 'ha', 'hat']
    """
    return piece[: (piece + piece).index(piece, 1)]


class FastSentencePieceTokenizer:
    """The tokens of `SentencePieceTokenizer`, mostly by TF Text's faster implementation of SentencePiece.

    If two segmentations of a text are equally likely ("666" as "66 6" or as "6 66"), rounding decides, and
    the implementations differ. So texts in which neighbouring pieces could change places, and long texts, go
    to SentencePiece itself.
    Note: ties of three and more pieces ("e aea ea", "ea e aea") are not detected; of 11 million tokens of
    English text one came out differently.

    Args:
      vocabulary: a SentencePiece vocabulary.
      **settings: `lowercase` and `strip_accents`, bools; both are True by default.
    """

    def __init__(self, vocabulary: Vocabulary, **settings: bool):
        self._vocabulary, self._settings = vocabulary, settings
        self._fast = tf_text.FastSentencepieceTokenizer(vocabulary.files[SENTENCEPIECE_FILE])
        numbers: dict[str, int] = {}
        units = [numbers.setdefault(repeated_unit(piece), len(numbers)) for piece in vocabulary.pieces]
        self._units = np.array(units, np.int32)  # [V]

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text, without special tokens: string [B] to int32 [B, (tokens)]."""
        text = normalize(text, **self._settings)
        tokens = self._fast.tokenize(text).with_row_splits_dtype(tf.int64)  # [B, (tokens)]
        has_ties = self._has_ties(tokens)  # [B]
        # Made here, SentencePiece's model is part of the graph that tf.data sends to its workers.
        exact = SentencePieceTokenizer(self._vocabulary, **self._settings)._sentencepiece
        exact_tokens = exact.tokenize(tf.boolean_mask(text, has_ties))
        exact_rows = tf.size(text) - 1 + tf.cumsum(tf.cast(has_ties, tf.int32))
        rows = tf.where(has_ties, exact_rows, tf.range(tf.size(text)))
        return tf.gather(tf.concat([tokens, exact_tokens], axis=0), rows)

    def _has_ties(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """True for texts that are long or may have another equally likely segmentation, bool [B]."""
        ids = tokens.flat_values
        units = tf.gather(self._units, ids)
        places = tf.where((units[1:] == units[:-1]) & (ids[1:] != ids[:-1]))[:, 0]
        rows = tf.searchsorted(tokens.row_splits, places, side="right") - 1
        lengths = tokens.row_lengths()
        ties = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, tf.size(lengths))
        return (ties > 0) | (lengths > _MAX_TOKENS)
