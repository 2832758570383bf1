import unicodedata

import hypothesis
import hypothesis.strategies as st
import numpy as np
import tensorflow as tf

from albert_tf.text.packing import SPACES, sliding_windows, split_words, word_windows


def by_hand(length, budget, stride):
    """The windows of one document, one after the other: number, start, length."""
    found, start = [], 0
    while True:
        found.append((len(found), start, min(length - start, budget)))
        if start + budget >= length:
            return found
        start += min(budget, stride)


def test_windows_one_after_the_other():
    lengths, budgets = (x.ravel() for x in np.meshgrid(np.arange(25), np.arange(1, 12)))
    for stride in (1, 3, 4, 20):
        windows = sliding_windows(tf.constant(lengths, tf.int32), tf.constant(budgets, tf.int32), stride)
        expected = [
            (row, *window)
            for row, (length, budget) in enumerate(zip(lengths, budgets, strict=True))
            for window in by_hand(length, budget, stride)
        ]
        assert list(zip(*(tensor.numpy().tolist() for tensor in windows), strict=True)) == expected


def cut_by_hand(words, budget):
    """A text's windows of words, from their lengths, one after the other: number, start, length."""
    found, start, length = [], 0, 0
    for word in words:
        if length + word > budget and length:
            found.append((len(found), start, length))
            start, length = start + length, 0
        while word > budget:
            found.append((len(found), start, budget))
            start, word = start + budget, word - budget
        length += word
    return [*found, (len(found), start, length)] if length or not found else found


def test_windows_of_words():
    random = np.random.default_rng(0)
    texts = [random.integers(1, 7, random.integers(0, 12)).tolist() for _ in range(60)]
    words = np.concatenate([[0], np.cumsum([word for text in texts for word in text])])
    ends = words[np.cumsum([0, *map(len, texts)])]
    function = tf.function(word_windows, reduce_retracing=True)
    for budget in (1, 2, 5, 6, 11, 100):
        expected = [(row, *window) for row, text in enumerate(texts) for window in cut_by_hand(text, budget)]
        for made in (word_windows, function):
            windows = made(tf.constant(words), tf.constant(ends), budget)
            assert list(zip(*(tensor.numpy().tolist() for tensor in windows), strict=True)) == expected
    assert word_windows(tf.constant([0]), tf.constant([0]), 4).rows.shape == [0]


TEXTS = [
    "Ada Löwe lebt in Zürich .",
    "",
    " \t ",
    "one",
    "  two\u00a0three\u3000 four\u2028\x1cfive\n",
    "𝔘𝔫𝔦 \u200b zero-width",
]


def split_by_hand(text):
    """Words as Python splits them, with their bytes."""
    found, place = [], 0
    for word in text.split():
        place = text.index(word, place)
        start = len(text[:place].encode())
        found.append((word, start, start + len(word.encode())))
        place += len(word)
    return found


def listed(words):
    return [
        [(word.decode(), start, end) for word, start, end in zip(*row, strict=True)]
        for row in zip(*(ragged.to_list() for ragged in words), strict=True)
    ]


def test_words_are_those_of_python():
    assert listed(split_words(tf.constant(TEXTS))) == [split_by_hand(text) for text in TEXTS]
    (row,) = zip(*(ragged.to_list() for ragged in split_words(tf.constant([b"a\xff b\xc3"]))), strict=True)
    assert row == ([b"a\xff", b"b\xc3"], [0, 3], [2, 5])  # what is not UTF-8 belongs to words


def is_punctuation(character):
    """As `_is_punctuation` of google-research/bert's tokenization.py."""
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")


def split_punctuation_by_hand(text):
    """Words as Python splits them, then as `_run_split_on_punc` there does, with their bytes."""
    found = []
    for word, start, _ in split_by_hand(text):
        pieces, is_new = [], True
        for character in word:
            if is_punctuation(character):
                pieces.append(character)
                is_new = True
            elif is_new:
                pieces.append(character)
                is_new = False
            else:
                pieces[-1] += character
        for piece in pieces:
            end = start + len(piece.encode())
            found.append((piece, start, end))
            start = end
    return found


MARKED = [
    *TEXTS,
    "(Paris) and “Anna”, Paris/London; Paris. ¿Qué? «Łódź»—x",
    "don't 3.5% a_b c-d e+f $5 €5 x^2 `y` ~z <b>|",
    "北京。東京、大阪（奈良）… 🐝🐝.",
    "...",
    ".a",
    "a.",
    "é\u0301.\u0301b",
]


def test_punctuation_splits_as_in_bert():
    assert listed(split_words(tf.constant(MARKED), "punctuation")) == [
        split_punctuation_by_hand(text) for text in MARKED
    ]
    assert listed(split_words(tf.constant(MARKED))) == [split_by_hand(text) for text in MARKED]
    # Of all characters; what one of both Unicode versions lacks is not compared.
    known = [chr(code) for code in range(0x20000) if unicodedata.category(chr(code))[0] not in "CZ"]
    (found,) = listed(
        split_words(tf.constant(["".join(f"a{character}b " for character in known)]), "punctuation")
    )
    marks = {word for word, _, _ in found if len(word) == 1} - {"a", "b"}
    assert marks == {character for character in known if is_punctuation(character)}


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(st.lists(st.text(alphabet=st.sampled_from("ab .,/“”'é\u00a0\n\u200b漢。🐝_$"))))
def test_punctuation_of_any_texts(texts):
    found = split_words(tf.constant(texts, tf.string), "punctuation")
    assert listed(found) == [split_punctuation_by_hand(text) for text in texts]


def test_spaces_are_those_of_python():
    assert set(map(chr, SPACES)) == {chr(code) for code in range(0x110000) if chr(code).isspace()}


def test_in_graph_of_any_size_and_without_asserts():
    texts = [tf.TensorSpec([None], tf.string)]
    words = tf.function(lambda text: split_words(text, "punctuation"), input_signature=texts)
    assert listed(words(tf.constant(MARKED))) == [split_punctuation_by_hand(text) for text in MARKED]
    assert words(tf.constant([], tf.string)).text.to_list() == []
    numbers = tf.TensorSpec([None], tf.int32)
    windows = tf.function(sliding_windows, input_signature=[numbers, numbers, tf.TensorSpec([], tf.int32)])
    found = windows(tf.constant([0, 9]), tf.constant([4, 4]), tf.constant(3))
    assert [x.numpy().tolist() for x in found] == [[0, 1, 1, 1], [0, 0, 1, 2], [0, 0, 3, 6], [0, 4, 4, 3]]
    assert windows(tf.zeros([0], tf.int32), tf.zeros([0], tf.int32), tf.constant(3)).rows.shape == [0]
    for function in (words, windows):
        ops = function.get_concrete_function().graph.get_operations()
        assert not [op for op in ops if "Assert" in op.type]


def test_a_long_text_takes_time_in_proportion():
    text = "word " * 50_000
    np.testing.assert_array_equal(split_words(tf.constant([text])).starts.flat_values, np.arange(50_000) * 5)
