import unicodedata

import pytest
import tensorflow as tf

from albert_tf.text.sentencepiece import normalize
from tests.fuzz import nfkc_casefold


def without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


LETTERS = [chr(c) for c in [*range(0x20, 0x34F), *range(0x370, 0x530), *range(0x1E00, 0x2000)]]
TRAPS = [*"¨¯´¸Ǆﾞ½²™ﬁⅣẞİ한각", "\u00ad", "\u200b", "x\u00ady", "z\u200bw", "e\u0301", "👍🏽"]


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [True, False])
def test_agrees_with_unicodes_definition(lowercase, strip_accents):
    # Unassigned code points are left out: which they are differs between the Python versions.
    texts = [t for t in LETTERS + TRAPS if all(unicodedata.category(c) != "Cn" for c in t)]
    expected = texts
    if strip_accents:
        expected = [without_accents(text) for text in expected]
    if lowercase:
        expected = [nfkc_casefold(text) for text in expected]
    result = [text.decode() for text in normalize(tf.constant(texts), lowercase, strip_accents).numpy()]
    assert result == expected


def test_folding_first_would_keep_accents():
    assert normalize(tf.constant("Café")).numpy() == b"cafe"
    assert normalize(tf.constant("Café"), strip_accents=False).numpy().decode() == "café"


def test_keeps_shape_and_bytes_that_are_not_utf8():
    assert normalize(tf.constant([[b"\xff"], [b"A\x00B"]])).numpy().tolist() == [[b"\xff"], [b"a\x00b"]]
    assert normalize(tf.constant([], tf.string)).shape == [0]
