"""Text to token ids at twice SentencePiece's speed, for pipelines that read a whole corpus."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from albert_tf.text.normalization import normalize
from albert_tf.text.tokenizer import PieceTokenizer
from albert_tf.text.vocabulary import Vocabulary

# In longer texts the rounding of large float32 sums decides more than ties.
_MOST_TOKENS = 512


def repeated_unit(piece: str) -> str:
    """The shortest string that a piece repeats.

    >>> [repeated_unit(piece) for piece in ("66", "haha", "hat")]
    ['6', 'ha', 'hat']
    """
    return piece[: (piece + piece).index(piece, 1)]


class FastPieceTokenizer:
    """The tokens of `PieceTokenizer`, mostly by TF Text's faster implementation of SentencePiece.

    Where two segmentations of a text are equally likely ("666" as "66 6" or as "6 66") rounding decides, and
    there the implementations differ. Texts in which neighbouring pieces could change places, and long ones,
    are therefore left to SentencePiece itself.
    Note: ties of three and more pieces ("e aea ea", "ea e aea") are not looked for; of 11 million tokens of
    English text one came out differently.

    Args:
      vocabulary: whose pieces the ids are.
      lowercase: whether case is folded, as `normalize`.
      strip_accents: whether accents are dropped, as `normalize`.
    """

    def __init__(self, vocabulary: Vocabulary, lowercase: bool = True, strip_accents: bool = True):
        self._vocabulary = vocabulary
        self._lowercase = lowercase
        self._strip_accents = strip_accents
        self._fast = tf_text.FastSentencepieceTokenizer(vocabulary.model)
        numbers: dict[str, int] = {}
        units = [numbers.setdefault(repeated_unit(piece), len(numbers)) for piece in vocabulary.pieces]
        self._units = np.array(units, np.int32)  # [V]

    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text.

        Args:
          text: string [B], UTF-8; what is not UTF-8 becomes `<unk>`.
        Returns:
          int32 [B, (tokens)], no special tokens added.
        """
        text = normalize(text, self._lowercase, self._strip_accents)
        tokens = self._fast.tokenize(text).with_row_splits_dtype(tf.int64)  # [B, (tokens)]
        tied = self._tied(tokens)  # [B]
        # Made here, SentencePiece's model is part of the graph that tf.data sends to its workers.
        exact = PieceTokenizer(self._vocabulary, self._lowercase, self._strip_accents)
        again = exact.tokenize_normalized(tf.boolean_mask(text, tied))
        source = tf.where(
            tied, tf.size(text) - 1 + tf.cumsum(tf.cast(tied, tf.int32)), tf.range(tf.size(text))
        )
        return tf.gather(tf.concat([tokens, again], axis=0), source)

    def _tied(self, tokens: tf.RaggedTensor) -> tf.Tensor:
        """The texts that may have another segmentation as likely as this one.

        Args:
          tokens: int32 [B, (tokens)].
        Returns:
          bool [B].
        """
        ids = tokens.flat_values
        units = tf.gather(self._units, ids)
        places = tf.where((units[1:] == units[:-1]) & (ids[1:] != ids[:-1]))[:, 0]
        rows = tf.searchsorted(tokens.row_splits, places, side="right") - 1
        lengths = tokens.row_lengths()
        ties = tf.math.unsorted_segment_sum(tf.ones_like(rows), rows, tf.size(lengths))
        return (ties > 0) | (lengths > _MOST_TOKENS)
