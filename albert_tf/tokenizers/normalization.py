"""Normalisation of text before it is tokenised."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

_EXAMPLES = 3


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
    Returns:
      Strings of the same shape.
    Source: the published `albert_en_preprocess/3`, where both are True.
    """
    if strip_accents:
        text = tf_text.normalize_utf8(text, "NFD")
        text = tf.strings.regex_replace(text, r"\p{Mn}", "")
    if lowercase:
        text = tf_text.case_fold_utf8(text)
    return text


class LostMarks(NamedTuple):
    """The effect of dropping accents on a text."""

    share: float  # of its letters and marks that would lose a mark or be dropped
    examples: list[str]  # of such characters the most frequent ones, and what becomes of them


def lost_marks(counts: Mapping[str, int]) -> LostMarks:
    """The effect of `strip_accents` on the letters of a text.

    Args:
      counts: how often each character is in it.

    >>> lost_marks({"e": 2, "é": 1, " ": 5, "й": 1})
    LostMarks(share=0.5, examples=['é to e', 'й to и'])
    """
    letters = {c: n for c, n in counts.items() if c.isalpha() or unicodedata.category(c) == "Mn"}
    bare = {c: _without_marks(c) for c in letters}
    losing = {c: n for c, n in letters.items() if bare[c] != c}
    frequent = sorted(losing, key=lambda c: (-losing[c], c))[:_EXAMPLES]
    return LostMarks(
        sum(losing.values()) / max(sum(letters.values()), 1),
        [f"{c} to {bare[c] or 'nothing'}" for c in frequent],
    )


def _without_marks(character: str) -> str:
    """A character without its marks; as it was where it has none."""
    apart = unicodedata.normalize("NFD", character)
    bare = "".join(c for c in apart if unicodedata.category(c) != "Mn")
    return character if bare == apart else bare
