"""Normalisation of text before it is tokenised."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_text as tf_text


def normalize(text: tf.Tensor, lowercase: bool = True, strip_accents: bool = True) -> tf.Tensor:
    """Text in the form that a vocabulary is trained on and tokenises.

    The order matters: case folding composes what NFD has taken apart, so accents go first. Case folding is
    Unicode's NFKC_Casefold, which also drops what cannot be seen (U+00AD, U+200B). A cased vocabulary needs
    no further clean-up: SentencePiece's own normaliser, nmt_nfkc, applies NFKC to whatever comes out of here
    and thereby composes again what NFD took apart.

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
