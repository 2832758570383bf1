import random
import unicodedata

import pytest
import tensorflow as tf

from albert_tf.text.sentencepiece import (
    FastSentencePieceTokenizer,
    SentencePieceTokenizer,
    SentencePieceVocabulary,
    normalize,
)
from tests.fuzz import nfkc_casefold
from tests.tiny import CORPUS

ALPHABETS = (
    "0123456789., ",
    "aabcdeenos ",
    "aé ñ你好、ひ한글😀👍🏽ÀſßŁ€£–…\u200b\u00ad\u0301",
    ["a", "b ", "[MASK]", "<unk>", "<pad>", "[CLS]", "▁", *"\0\1\t\r\v\x85\u3000"],
)


@pytest.fixture(scope="module")
def real_pair(published_vocabulary):
    """The fast tokenizer and SentencePiece itself, with ALBERT's own vocabulary."""
    vocabulary = SentencePieceVocabulary.from_file(published_vocabulary)
    return FastSentencePieceTokenizer(vocabulary), SentencePieceTokenizer(vocabulary)


def assert_same(fast, exact, texts):
    found, expected = fast(tf.constant(texts)), exact(tf.constant(texts))
    assert found.dtype == expected.dtype
    pairs = zip(texts, found.to_list(), expected.to_list(), strict=True)
    assert [text for text, a, b in pairs if a != b] == []


@pytest.mark.parametrize("is_normalised", [True, False])
def test_as_sentencepiece(tiny_vocabulary, is_normalised):
    generator = random.Random(0)
    texts = CORPUS.split("\n")
    for alphabet in ALPHABETS:
        texts += ["".join(generator.choices(alphabet, k=generator.randrange(40))) for _ in range(500)]
    texts = [text.encode() for text in texts]
    texts += [generator.randbytes(generator.randrange(30)) for _ in range(500)]
    texts += [b"", b" ", b"a" * 5000, b"word " * 2000]
    vocabulary = SentencePieceVocabulary.from_file(tiny_vocabulary)
    settings = {"lowercase": is_normalised, "strip_accents": is_normalised}
    assert_same(
        FastSentencePieceTokenizer(vocabulary, **settings),
        SentencePieceTokenizer(vocabulary, **settings),
        texts,
    )


def test_ties_are_left_to_sentencepiece(real_pair):
    fast, exact = real_pair
    ties = [
        "15,335 of the total 111,666 were 35 and younger and only 6,222 were 65 or older.",
        "Similarly, we understand the number 0.33333... by thinking of it as one-third.",
    ]
    plainly = fast._fast.tokenize(tf.strings.lower(ties)).to_list()
    assert all(a != b for a, b in zip(plainly, exact(tf.constant(ties)).to_list(), strict=True))
    assert_same(fast, exact, ties)


@pytest.mark.parametrize(
    "name", ["wikitext2_valid.txt", pytest.param("gutenberg.txt", marks=pytest.mark.slow)]
)
def test_real_text(real_pair, shared, name):
    assert_same(*real_pair, (shared / "data/corpus" / name).read_text(encoding="utf-8").splitlines())


def test_in_a_pipeline_as_eagerly(real_pair):
    fast, _ = real_pair
    for texts in (["333333 The end.", "", "Ünïcode 😀", "66666"], []):
        given = tf.constant(texts, tf.string)
        mapped = tf.data.Dataset.from_tensors(given).map(fast).get_single_element()
        assert mapped.to_list() == fast(given).to_list()


#


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
