"""BERT's tokenizer inside the graph: clean-up, words and marks, then WordPiece."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.tokenizer_settings import WORDPIECE, lines_of_vocabulary
from albert_tf.tokenizers.base import TextTokenizer, TokenIds, TokensWithOffsets
from albert_tf.tokenizers.offsets import normalize_with_offsets, rows_of
from albert_tf.utils.errors import InputError

FILE_OF_RUN = "vocab.txt"
SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"  # begins the pieces that go on with a word

MAX_WORD_LENGTH = 200  # characters; a longer word is unknown
_MAX_WORD_BYTES = 4 * MAX_WORD_LENGTH
_NO_WORD = "\0"  # is in no vocabulary, and the clean-up removes it from texts

_IDEOGRAPHS = "".join(
    f"\\x{{{first:X}}}-\\x{{{last:X}}}"
    for first, last in (
        (0x4E00, 0x9FFF),
        (0x3400, 0x4DBF),
        (0x20000, 0x2A6DF),
        (0x2A700, 0x2B73F),
        (0x2B740, 0x2B81F),
        (0x2B820, 0x2CEAF),
        (0xF900, 0xFAFF),
        (0x2F800, 0x2FA1F),
    )
)
_MARKS = r"!-/:-@\[-`{-~\p{P}"


def basic_words(text: tf.Tensor, lowercase: bool = True, strip_accents: bool = True) -> tf.Tensor:
    """Text cleaned up, with spaces around each ideograph and each punctuation mark.

    Args:
      text: UTF-8 strings of any shape; bytes that are not UTF-8 are dropped.
      lowercase: True makes letters small.
      strip_accents: True drops the combining marks of NFD (category Mn).
    Returns:
      Strings of the same shape; their words are what stands between spaces.
    Source: google-research/bert, `BasicTokenizer` in tokenization.py, where both are `do_lower_case`.
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
    text = tf.strings.regex_replace(text, r"[\t\n\r\p{Z}]", " ")
    text = tf.strings.regex_replace(text, r"[\x{0}\x{FFFD}\p{Cc}\p{Cf}]", "")
    text = tf.strings.regex_replace(text, f"[{_IDEOGRAPHS}]", r" \0 ")
    if lowercase:
        text = tf.strings.lower(text, "utf-8")
    if strip_accents:
        text = tf.strings.regex_replace(tf_text.normalize_utf8(text, "NFD"), r"\p{Mn}", "")
    return tf.strings.regex_replace(text, f"[{_MARKS}]", r" \0 ")


class WordPieceVocabulary(TokenIds):
    """The pieces of a `vocab.txt`, one a line, whose number is their id."""

    kind = WORDPIECE
    special_pieces = SPECIAL_PIECES

    def __init__(self, files: Mapping[str, bytes], name: str = "the vocabulary"):
        super().__init__(files, name)
        _ = self.special_ids  # which checks that they are there

    def _read(self) -> list[str]:
        try:
            return lines_of_vocabulary(self.files[FILE_OF_RUN])
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self.name} is not UTF-8 (byte {error.start}): it must have one piece a line"
            ) from error

    @functools.cached_property
    def starts_word(self) -> np.ndarray:
        """True for pieces that begin a word, bool [V]."""
        return np.array([not piece.startswith(CONTINUATION) for piece in self.pieces])

    @functools.cached_property
    def ordinary_ids(self) -> np.ndarray:
        """The ids of the pieces that text consists of, ascending int32."""
        special = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]")
        return np.array([i for i, piece in enumerate(self.pieces) if not special.fullmatch(piece)], np.int32)


class WordPieceTokenizer(TextTokenizer):
    """Tokenizer of BERT: the ids of google-research/bert's `FullTokenizer`."""

    kind = WORDPIECE
    vocabulary_class = WordPieceVocabulary
    normalize = staticmethod(basic_words)

    def __init__(self, vocabulary: WordPieceVocabulary, lowercase: bool = True, strip_accents: bool = True):
        super().__init__(vocabulary, lowercase, strip_accents)
        self._wordpiece = tf_text.FastWordpieceTokenizer(
            list(vocabulary.pieces),
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=_MAX_WORD_BYTES,
            token_out_type=tf.int32,
            no_pretokenization=True,
        )

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """As of `TextTokenizer`."""
        words = tf.strings.split(self._normalized(text))  # [B, (words)]
        return _of_texts(self._wordpiece.tokenize(_known(words.values)), words)

    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """As of `TextTokenizer`."""
        normalized, source = normalize_with_offsets(text, self._normalized)
        words = tf.strings.split(normalized)  # [B, (words)]
        known = _known(words.values)  # [W]
        pieces, starts, limits = self._wordpiece.tokenize_with_offsets(known)  # [W, (pieces)]
        counts = pieces.row_lengths()
        # The whole of a word that is too long.
        sizes = tf.cast(tf.where(known == _NO_WORD, tf.strings.length(words.values), 0), tf.int64)
        places = tf.repeat(_word_starts(normalized), counts)  # [tokens]
        first = places + starts.values
        after = places + tf.maximum(limits.values, tf.repeat(sizes, counts))
        tokens = _of_texts(pieces, words)
        spans = source.spans(rows_of(tokens.row_splits), first, after)
        return tokens, *(tokens.with_values(values) for values in spans)


def _known(words: tf.Tensor) -> tf.Tensor:
    """Words, and in place of those that are too long one that no vocabulary has."""
    return tf.where(tf.strings.length(words, "UTF8_CHAR") > MAX_WORD_LENGTH, _NO_WORD, words)


def _of_texts(pieces: tf.RaggedTensor, words: tf.RaggedTensor) -> tf.RaggedTensor:
    """The pieces of words, [W, (pieces)], as those of the texts [B, (words)] that the words are of."""
    splits = tf.gather(pieces.row_splits, words.row_splits)  # [B + 1]
    return tf.RaggedTensor.from_row_splits(pieces.values, splits, validate=False)


def _word_starts(text: tf.Tensor) -> tf.Tensor:
    """The first byte of each word of texts, string [B], whose words stand between spaces; int64 [W]."""
    characters = tf.strings.bytes_split(text)  # [B, (bytes)]
    rows = rows_of(characters.row_splits)
    is_space = tf.equal(characters.values, " ")
    columns = tf.range(tf.size(rows, tf.int64)) - tf.gather(characters.row_starts(), rows)
    opens = ~is_space & (tf.equal(columns, 0) | tf.concat([[True], is_space[:-1]], axis=0)[: tf.size(rows)])
    return tf.boolean_mask(columns, opens)
