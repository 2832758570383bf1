"""BERT's tokenizer inside the graph: it cleans text up, splits it into words and marks, then into pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.errors import InputError, shorten
from albert_tf.text.bounded_texts import make_squeeze_patterns
from albert_tf.text.offsets import normalize_with_offsets
from albert_tf.text.packing import PUNCTUATION, split_words
from albert_tf.text.text_tokenizer import TextTokenizer, TokensWithOffsets, Vocabulary, trace_once
from albert_tf.text.tokenizer_config import VOCABULARY_FILES, WORDPIECE, split_vocabulary_lines

(WORDPIECE_FILE,) = VOCABULARY_FILES[WORDPIECE]
WORDPIECE_SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"  # begins a piece that continues a word

# A word with more characters is unknown.
_MAX_CHARACTERS, _MAX_CHARACTERS_IN_TRANSFORMERS = 200, 100
LONGEST_PIECE = 256  # bytes; TensorFlow Text's limit
_NO_WORD = "\0"  # is in no vocabulary, and the clean-up removes it from texts

_SPACES = r"\t\n\r\p{Z}"
_DROPPED = r"\x00-\x08\x0B\x0C\x0E-\x1F\x7F-\x{9F}\x{FFFD}\p{Cf}"  # controls that are no spaces
_IDEOGRAPHS = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
_IDEOGRAPHS_IN_TRANSFORMERS = _IDEOGRAPHS.replace("2B820", "2B920")

_LETTERS_WITH_OTHER_RULES = "İĮÌÍĨ"

# Unicode's rule Final_Sigma: a letter before Σ and none after it, whatever marks lie between them.
_CASED, _MARKS = r"\p{Lu}\p{Ll}\p{Lt}", rf"\p{{Mn}}\p{{Me}}\p{{Lm}}\p{{Sk}}'.:··․’‘﹒﹕＇．：{_DROPPED}"
_FINAL_SIGMA = rf"([{_CASED}][{_MARKS}]*)Σ([{_MARKS}]*(?:[^{_CASED}{_MARKS}]|\z))"


def basic_words(
    text: tf.Tensor,
    lowercase: bool = True,
    strip_accents: bool = True,
    tokenize_chinese_chars: bool = True,
    like_transformers: bool = False,
) -> tf.Tensor:
    """Cleans text up, and puts spaces around each ideograph and each punctuation mark; spaces divide words.

    Args:
      text: UTF-8 strings of any shape; bytes that are not UTF-8 are dropped.
      lowercase: True to lowercase.
      strip_accents: True to drop the combining marks of NFD (category Mn).
      tokenize_chinese_chars: True: each ideograph is a word; False: ideographs are letters.
      like_transformers: True to drop private-use characters, too, treat a few ideographs as letters, and
        lowercase a final Σ to σ, as BertTokenizer of transformers does.
    Source: google-research/bert, `BasicTokenizer` in tokenization.py. Its `do_lower_case` is both `lowercase`
    and `strip_accents`.
    """
    text = tf.strings.unicode_transcode(text, "UTF-8", "UTF-8", errors="ignore")
    private = r"\p{Co}" if like_transformers else ""
    text = tf.strings.regex_replace(text, f"[{_SPACES}]", " ")
    text = tf.strings.regex_replace(text, f"[{_DROPPED}{private}]", "")
    if tokenize_chinese_chars:
        ideographs = _IDEOGRAPHS_IN_TRANSFORMERS if like_transformers else _IDEOGRAPHS
        text = tf.strings.regex_replace(text, f"[{ideographs}]", r" \0 ")
    if lowercase:
        if like_transformers:
            text = tf.strings.regex_replace(text, "Σ", "σ")
        # TensorFlow takes the rules of the user's locale. Turkish, Azeri and Lithuanian have others for some
        # letters; for those with an accent they differ in accents only.
        text = tf.strings.lower(text)  # of ASCII alone, the same everywhere
        for letter in "" if strip_accents else _LETTERS_WITH_OTHER_RULES:
            text = tf.strings.regex_replace(text, letter, letter.lower())
        text = tf.strings.lower(text, "utf-8")
    if strip_accents:
        text = tf.strings.regex_replace(tf_text.normalize_utf8(text, "NFD"), r"\p{Mn}", "")
    return tf.strings.regex_replace(text, f"[{PUNCTUATION}]", r" \0 ")


class WordPieceVocabulary(Vocabulary):
    """The pieces of a `vocab.txt`, one per line; a piece's id is its line number, from 0."""

    kind = WORDPIECE
    special_pieces = WORDPIECE_SPECIAL_TOKENS

    def __init__(self, files: Mapping[str, bytes], name: str = "the vocabulary"):
        super().__init__(files, name)
        _ = self.special_ids  # raises InputError if one is missing

    def _read(self) -> list[str]:
        try:
            pieces = split_vocabulary_lines(self.files[WORDPIECE_FILE], self.name)
        except UnicodeDecodeError as error:
            raise InputError(f"{self.name} is not UTF-8 (byte {error.start})") from error
        lines = dict[str, int]()
        for line, piece in enumerate(pieces, 1):
            if (other := lines.setdefault(piece, line)) != line:
                raise InputError(f"{self.name}:{line}: {shorten(piece)} is on line {other}, too: leave one")
            if "\0" in piece or len(piece.encode()) > LONGEST_PIECE:
                why = f"has a NUL, or more than {LONGEST_PIECE} bytes"
                raise InputError(f"{self.name}:{line}: {shorten(piece)} {why}: it is part of no word")
        self.starts_word = np.array([not piece.startswith(CONTINUATION) for piece in pieces])
        special = re.compile(r"\[(PAD|UNK|CLS|SEP|MASK|unused\d+)\]")
        ordinary = [i for i, piece in enumerate(pieces) if not special.fullmatch(piece)]
        self.ordinary_ids = np.array(ordinary, np.int32)
        return pieces


class WordPieceTokenizer(TextTokenizer):
    """Tokenizer of BERT: the ids of google-research/bert's `FullTokenizer`."""

    kind = WORDPIECE
    vocabulary_class = WordPieceVocabulary
    normalize = staticmethod(basic_words)
    tokenize_chinese_chars: bool
    like_transformers: bool

    def __init__(self, vocabulary: WordPieceVocabulary, **settings: bool):
        super().__init__(vocabulary, **settings)
        self._longest = _MAX_CHARACTERS_IN_TRANSFORMERS if self.like_transformers else _MAX_CHARACTERS
        self._wordpiece = tf_text.FastWordpieceTokenizer(
            list(vocabulary.pieces),
            suffix_indicator=CONTINUATION,
            max_bytes_per_word=4 * self._longest,
            token_out_type=tf.int32,
            no_pretokenization=True,
        )

    @property
    def squeeze_patterns(self) -> Iterable[tuple[str, str]]:
        """See `TextTokenizer`."""
        return make_squeeze_patterns(_DROPPED + (r"\p{Mn}" if self.strip_accents else ""), _SPACES)

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """See `TextTokenizer`."""
        return _merge_words(self.tokenize_words(text))

    def tokenize_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """See `TextTokenizer`."""
        return tuple(map(_merge_words, self.tokenize_words_with_offsets(text)))

    @trace_once
    def tokenize_words(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of the words of each text: string [B] to int32 [B, (words), (tokens)]."""
        words = tf.strings.split(self._normalize(text))  # [B, (words)]
        pieces = self._wordpiece.tokenize(self._replace_long_words(words.values))
        return _group_by_text(pieces, words, text)

    @trace_once
    def tokenize_words_with_offsets(self, text: tf.Tensor) -> TokensWithOffsets:
        """The tokens of `tokenize_words`, the first byte of each in its text, and the byte after its last."""
        if self.lowercase and not self.like_transformers:
            # Before each character is lowercased alone. Both letters have two bytes.
            text = tf.strings.regex_replace(text, _FINAL_SIGMA, r"\1ς\2")
        normalized, source = normalize_with_offsets(text, self._normalize)
        words = split_words(normalized)
        short_words = self._replace_long_words(words.text.values)  # [W]
        pieces, starts, limits = self._wordpiece.tokenize_with_offsets(short_words)  # [W, (pieces)]
        counts = pieces.row_lengths()
        # The unknown token of a word that is too long has all bytes of the word.
        sizes = tf.where(short_words == _NO_WORD, tf.strings.length(words.text.values), 0)
        word_starts, sizes = (tf.repeat(tf.cast(x, tf.int64), counts) for x in (words.starts.values, sizes))
        first = word_starts + starts.values
        after = word_starts + tf.maximum(limits.values, sizes)
        tokens = _group_by_text(pieces, words.text, text)
        places = source.spans(_merge_words(tokens), first, after)
        return tokens, *(tokens.with_flat_values(place.values) for place in places)

    def detokenize(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """See `TextTokenizer`. Words and punctuation marks have a space between them."""
        pieces = tf.gather(list(self.vocabulary.pieces), tokens)  # [B, (tokens)]
        texts = tf.strings.reduce_join(pieces, axis=1, separator=" ")
        return tf.strings.regex_replace(texts, f" {CONTINUATION}", "")

    def _replace_long_words(self, words: tf.Tensor) -> tf.Tensor:
        """Words, with _NO_WORD in place of each word that is too long."""
        return tf.where(tf.strings.length(words, "UTF8_CHAR") > self._longest, _NO_WORD, words)


def _group_by_text(pieces: tf.RaggedTensor, words: tf.RaggedTensor, text: tf.Tensor) -> tf.RaggedTensor:
    """Groups the pieces of words, [W, (pieces)], by texts: [B, (words), (pieces)].

    `words` are the words of each text, [B, (words)]. B is static if that of `text`, string [B], is:
    accelerators need it, and a split loses it.
    """
    splits = tf.reshape(words.row_splits, tf.shape(text) + 1)
    return tf.RaggedTensor.from_row_splits(pieces, splits, validate=False)


def _merge_words(tokens: tf.RaggedTensor) -> tf.RaggedTensor:
    """The tokens of each text without the axis of words: [B, (words), (pieces)] to [B, (pieces)]."""
    splits = tf.gather(tokens.values.row_splits, tokens.row_splits)  # [B + 1]
    return tf.RaggedTensor.from_row_splits(tokens.flat_values, splits, validate=False)
