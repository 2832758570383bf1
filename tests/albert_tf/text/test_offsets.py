import re
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.text.offsets import ATTACHED, normalize_with_offsets, row_edges, rows_of, split_units
from albert_tf.text.sentencepiece import SentencePieceTokenizer, SentencePieceVocabulary, normalize
from tests.fuzz import IGNORABLE, fuzzed_texts

TABLE = {code for code in range(0x110000) if re.fullmatch(f"[{ATTACHED}]", chr(code))}
HANGUL_VOWELS_AND_FINALS = {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}


def second_of_a_composition():
    """The characters that canonically compose with one before them, by Python's tables."""
    found = set(HANGUL_VOWELS_AND_FINALS)
    for code in range(0x30000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            first, second = (chr(int(part, 16)) for part in parts)
            if unicodedata.normalize("NFC", first + second) == chr(code):
                found.add(ord(second))
    return found


def test_table_holds_what_composes_with_or_vanishes_behind_a_character():
    seconds = second_of_a_composition()

    def attaches(character):
        return unicodedata.category(character)[0] == "M" or ord(character) in seconds

    needed = set(IGNORABLE)
    for code in range(0x30000):
        forms = (chr(code), unicodedata.normalize("NFKD", chr(code)).casefold())
        if any(attaches(form[0]) for form in forms):
            needed.add(code)
    marks = {code for code in needed if unicodedata.category(chr(code))[0] == "M"}
    marks.add(0x180F)  # of Unicode 14; Python 3.10 has the tables of 13
    assert needed - marks == TABLE - {0xFFFD} - marks


def test_units_are_characters_with_what_may_change_them():
    texts = ["ab", "", "e\u0301\u0323x", "\u0301a", "가\u11a8", "ｶﾞ\u00ad!", b"a\xff\xfeb"]
    units = split_units(tf.constant(texts))
    expected = [
        [b"a", b"b"],
        [],
        ["e\u0301\u0323".encode(), b"x"],
        ["\u0301".encode(), b"a"],
        ["가\u11a8".encode()],
        ["ｶﾞ\u00ad".encode(), b"!"],
        [b"a\xff\xfe", b"b"],
    ]
    flat = [unit for row in expected for unit in [*row, b"\n"]]
    assert units.text.numpy().tolist() == flat
    assert units.rows.numpy().tolist() == [r for r, row in enumerate(expected) for _ in range(len(row) + 1)]
    starts = [len(b"".join(row[:n])) for row in expected for n in range(len(row) + 1)]
    assert units.starts.numpy().tolist() == starts
    _, is_last = row_edges(units.rows)
    assert [unit for unit, last in zip(flat, is_last, strict=True) if last] == [b"\n"] * len(texts)


@pytest.mark.parametrize(("lowercase", "strip_accents"), [(True, True), (True, False), (False, True)])
def test_units_normalise_like_the_whole(lowercase, strip_accents):
    texts = tf.constant(fuzzed_texts(3000, seed=1, longest=3000))
    joined, _ = normalize_with_offsets(texts, lambda text: normalize(text, lowercase, strip_accents))
    np.testing.assert_array_equal(joined, normalize(texts, lowercase, strip_accents))


def test_spans_lead_back_through_what_grew_shrank_and_vanished():
    text = "\u200bÉe\u0301ﬁ½"  # bytes 3 + 2 + 3 + 3 + 2 → "eefi1⁄2", bytes 1 + 1 + 2 + 5
    joined, source = normalize_with_offsets(tf.constant(["x", text]), normalize)
    assert joined.numpy()[1].decode() == "eefi1⁄2"
    spans = [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 9), (0, 9), (0, 0), (9, 9)]
    originals = [(3, 5), (5, 8), (3, 8), (8, 11), (8, 11), (11, 13), (3, 13), (3, 3), (13, 13)]
    starts, limits = zip(*spans, strict=True)
    tokens = tf.RaggedTensor.from_row_lengths([0] * len(spans), [0, len(spans)])
    found = source.spans(tokens, tf.constant(starts, tf.int64), tf.constant(limits, tf.int64))
    assert list(zip(*(ragged.values.numpy().tolist() for ragged in found), strict=True)) == originals


def test_tokens_of_text_that_normalisation_keeps_are_the_text_itself(tiny_vocabulary):
    vocabulary = SentencePieceVocabulary.from_file(tiny_vocabulary)
    texts = ["the old clock, and the sea.", "a", ""]
    tokens, starts, limits = SentencePieceTokenizer(vocabulary).tokenize_with_offsets(tf.constant(texts))
    for text, ids, first, behind in zip(texts, *(x.to_list() for x in (tokens, starts, limits)), strict=True):
        surfaces = [text[a:b] for a, b in zip(first, behind, strict=True)]
        pieces = [vocabulary.pieces[i].replace("▁", " ") for i in ids]
        assert surfaces == [piece[1:] if n == 0 else piece for n, piece in enumerate(pieces)]
        assert "".join(surfaces) == text


def test_cased_vocabularies_are_not_normalised_here(tiny_vocabulary):
    tokenizer = SentencePieceTokenizer(
        SentencePieceVocabulary.from_file(tiny_vocabulary), lowercase=False, strip_accents=False
    )
    texts = tf.constant(["The Café", "ＴＨＥ ﬁ", b"\xff the"])
    tokens, starts, limits = tokenizer.tokenize_with_offsets(texts)
    assert tokens.to_list() == tokenizer(texts).to_list()
    assert [row[-1] for row in limits.to_list()] == [9, 13, 5]
    assert [row[0] for row in starts.to_list()] == [0, 0, 0]
    found = tokenizer.tokenize_with_offsets(tf.constant([], tf.string))
    assert [ragged.to_list() for ragged in found] == [[], [], []]
    assert [ragged.dtype for ragged in found] == [tf.int32, tf.int64, tf.int64]


def test_rows_of():
    assert rows_of(tf.constant([0, 0, 2, 2, 3], tf.int64)).numpy().tolist() == [1, 1, 3]
