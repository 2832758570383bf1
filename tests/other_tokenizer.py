"""A tokenizer of words with other special ids and another frame than ALBERT's: `<s> a </s></s> b </s>`."""

import numpy as np
import tensorflow as tf

from albert_tf.text.text_tokenizer import InputFormat, SpecialIds, TextTokenizer, Vocabulary
from albert_tf.text.tokenizer_config import KIND_DEFAULTS, TOKENIZER_DEFAULTS

IDS = SpecialIds(padding=1, unknown=3, start=0, separator=2, mask=4)
SIZE = 50
KIND_DEFAULTS["words"] = TOKENIZER_DEFAULTS


class Words(Vocabulary):
    """Ids of words are their hashes."""

    special_ids = IDS
    input_format = InputFormat(start=(0,), between=(2, 2), end=(2,), padding=1, has_type_ids=False)
    starts_word = np.ones(SIZE, bool)
    ordinary_ids = np.arange(5, SIZE, dtype=np.int32)

    def __init__(self, *_):
        self.files, self.pieces = {}, range(SIZE)


class WordTokenizer(TextTokenizer):
    """Text to its words, without normalisation."""

    kind = "words"
    vocabulary_class = Words

    def __init__(self, vocabulary=None, **settings):
        super().__init__(vocabulary or Words({}), **settings)

    def __call__(self, text):
        words = tf.strings.split(text)
        hashes = tf.strings.to_hash_bucket_fast(words.flat_values, SIZE - 5) + 5
        return words.with_values(tf.cast(hashes, tf.int32))

    def tokenize_with_offsets(self, text):
        """Words, the byte that each begins at, and the one after it; texts have single spaces."""
        words = tf.strings.split(text)
        lengths = words.with_values(tf.strings.length(words.flat_values) + 1)
        ends = tf.ragged.map_flat_values(tf.cast, lengths, tf.int64)
        before = ends.with_values(tf.cumsum(ends.flat_values))
        starts = tf.cumsum(ends.flat_values, exclusive=True)
        first = tf.gather(tf.concat([starts, [0]], axis=0), words.row_starts())
        offsets = starts - tf.gather(first, words.value_rowids())
        return (self(text), before.with_values(offsets), before.with_values(offsets + ends.flat_values - 1))
