import random

import pytest
import tensorflow as tf

from albert_tf.tokenizers.tokenizer import FastPieceTokenizer, PieceTokenizer
from albert_tf.tokenizers.vocabulary import Vocabulary
from tests.tiny import CORPUS

ALPHABETS = {
    "digits": "0123456789., ",
    "letters": "aabcdeenos ",
    "scripts": "aé ñ你好、ひ한글😀👍🏽ÀſßŁ€£–…\u200b\u00ad\u0301",
    "controls": [
        "a",
        "b ",
        "[MASK]",
        "<unk>",
        "<pad>",
        "[CLS]",
        "▁",
        "\0",
        "\1",
        "\t",
        "\r",
        "\v",
        "\x85",
        "\u3000",
    ],
}


@pytest.fixture(scope="module")
def pairs(tiny_vocabulary):
    """The fast tokenizer and SentencePiece itself, with and without normalisation."""
    vocabulary = Vocabulary.from_file(tiny_vocabulary)
    return [(FastPieceTokenizer(vocabulary, x, x), PieceTokenizer(vocabulary, x, x)) for x in (True, False)]


@pytest.fixture(scope="module")
def real_pair(shared):
    """The same for ALBERT's own vocabulary."""
    vocabulary = Vocabulary.from_file(shared / "data/vocabulary/30k-clean.model")
    return FastPieceTokenizer(vocabulary), PieceTokenizer(vocabulary)


def assert_same(fast, exact, texts):
    found, expected = fast(tf.constant(texts)), exact(tf.constant(texts))
    assert found.dtype == expected.dtype
    different = [
        text for text, a, b in zip(texts, found.to_list(), expected.to_list(), strict=True) if a != b
    ]
    assert different == []


def test_as_sentencepiece(pairs):
    generator = random.Random(0)
    texts = CORPUS.split("\n")
    for alphabet in ALPHABETS.values():
        texts += ["".join(generator.choices(alphabet, k=generator.randrange(40))) for _ in range(500)]
    texts = [text.encode() for text in texts]
    texts += [generator.randbytes(generator.randrange(30)) for _ in range(500)]
    texts += [b"", b" ", b"a" * 5000, b"word " * 2000]
    for fast, exact in pairs:
        assert_same(fast, exact, texts)


def test_ties_are_left_to_sentencepiece(real_pair):
    fast, exact = real_pair
    ties = [
        "15,335 of the total 111,666 were 35 and younger and only 6,222 were 65 or older.",
        "Similarly, we understand the number 0.33333... by thinking of it as one-third.",
    ]
    plainly = fast._fast.tokenize(tf.strings.lower(ties)).to_list()
    assert all(a != b for a, b in zip(plainly, exact(tf.constant(ties)).to_list(), strict=True))
    assert_same(fast, exact, ties)


def test_real_text(real_pair, shared):
    lines = (shared / "data/corpus/wikitext2_valid.txt").read_text(encoding="utf-8").splitlines()
    assert_same(*real_pair, lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wiki_ugolbck.txt", "gutenberg.txt"])
def test_much_real_text(real_pair, shared, name):
    assert_same(*real_pair, (shared / "data/corpus" / name).read_text(encoding="utf-8").splitlines())


def test_in_a_pipeline_as_eagerly(real_pair):
    fast, _ = real_pair
    texts = ["333333 The end.", "", "Ünïcode 😀", "66666"]
    mapped = tf.data.Dataset.from_tensors(texts).map(fast).get_single_element()
    assert mapped.to_list() == fast(tf.constant(texts)).to_list()


def test_no_texts(real_pair):
    assert real_pair[0](tf.constant([], tf.string)).to_list() == []
