import io
import sys
import timeit
import unicodedata

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceTrainer

from albert_tf.text import bounded_texts, sentencepiece, text_tokenizer
from albert_tf.text.bounded_texts import Gaps, keep_ends, make_squeeze_patterns, squeeze_runs
from albert_tf.text.tokenizer import TokenizerConfig, open_tokenizer
from albert_tf.text.vocabulary_training import train_vocabulary
from hub_export.modules import Preprocessor

KINDS = ("sentencepiece", "cased", "wordpiece", "byte_level_bpe")
CATEGORIES = ("Cc", "Cf", "Zs", "Zl", "Zp", "Mn")
LIMIT, TOKENS = 300, 4  # bytes, where tests make them small; tokens that a text is read for

# A megabyte of any of these took seconds, up to minutes.
GARBAGE = [
    "\0",
    "ж",
    "汉字",
    "a",
    " ",
    "\n",
    "\u0301\u0323",
    "a\u0301",
    "\u200b \0",
    "😀",
    "'",
    "\x80",
    "word, ",
]


@pytest.fixture(scope="module")
def tokenizers(tiny_corpus, tiny_vocabulary, byte_pairs, made_once):
    def write(folder):
        folder.mkdir()
        train_vocabulary(tiny_corpus, folder / "vocab.txt", 200, kind="wordpiece")

    words = made_once("bounded_wordpiece", write) / "vocab.txt"
    found = {
        kind: open_tokenizer(file) for kind, file in zip(KINDS[::2], (tiny_vocabulary, words), strict=True)
    }
    found["cased"] = open_tokenizer(tiny_vocabulary, lowercase=False, strip_accents=False)
    return {**found, "byte_level_bpe": open_tokenizer(byte_pairs)}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(text_tokenizer, "LEAST_BYTES", LIMIT)


def kept(tokens, long):
    """What of a text's tokens is compared."""
    head = TOKENS if long == "truncate" else 0 if long == "tail" else 1
    return (tokens[:head], tokens[max(len(tokens) - TOKENS + head, 0) :]) if len(tokens) > TOKENS else tokens


words = st.one_of(
    st.sampled_from(
        [
            "the",
            "sea",
            "it's",
            "naïve",
            "ΟΔΟΣ",
            "e\u0301",
            "１２",
            "字",
            "한국",
            "\0",
            "a\u200bb",
            "ж",
            "\u0301\u0323",
        ]
    ),
    st.text(max_size=8),
    st.tuples(st.sampled_from(" \n\u3000\u200b\x07"), st.integers(1, 200)).map(lambda of: of[0] * of[1]),
)
texts = st.tuples(st.lists(words, max_size=40), st.integers(1, 20), st.sampled_from([" ", "  ", "\n "])).map(
    lambda of: of[2].join(of[0] * of[1])
)


@pytest.mark.parametrize("long", ["truncate", "tail", "head_tail"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None)
@given(found=st.lists(texts, min_size=1, max_size=6))
def test_tokens_that_are_read_are_those_of_the_whole_text(tokenizers, kind, long, found):
    tokenizer, text = tokenizers[kind], tf.constant([text.encode("utf-8", "replace") for text in found])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tokenizer, "LEAST_BYTES", LIMIT)
        short = tokenizer.shorten_text(text, TOKENS, long)
        tokens = tokenizer.tokenize_shortened(text, TOKENS, long).to_list()
    limit = max(LIMIT, TOKENS * tokenizer.bytes_per_token)
    assert max(map(len, short.numpy())) <= limit * (2 if long == "head_tail" else 1)
    assert tokens == tokenizer(short).to_list()
    pairs = zip(tokens, tokenizer(text).to_list(), strict=True)
    for number, (cut, whole) in enumerate(pairs):
        assert kept(cut, long) == kept(whole, long), found[number][:200]


@pytest.mark.parametrize("kind", KINDS[:3])
def test_rows_of_any_character_that_vanishes_cost_no_token(tokenizers, kind, small):
    """Also where more than all bytes that are kept vanish, at the beginning and in words."""
    tokenizer = tokenizers[kind]
    characters = [c for c in map(chr, range(sys.maxunicode)) if unicodedata.category(c) in CATEGORIES]
    rows = [c * 400 + f"a{c * 400}b c" for c in characters]
    whole = tokenizer(rows).to_list()
    unknown = tokenizer.vocabulary.special_ids.unknown
    found = tokenizer(tokenizer.shorten_text(tf.constant(rows), TOKENS)).to_list()
    vanish = [
        number for number, tokens in enumerate(whole) if unknown not in tokens or rows[number][0] == "\0"
    ]
    if kind == "cased":  # a space to newer versions of SentencePiece, and unknown to published models
        vanish.remove(characters.index("\u061c"))
    assert len(vanish) > (1500 if kind != "cased" else 50)
    wrong = [hex(ord(characters[n])) for n in vanish if found[n][:TOKENS] != whole[n][:TOKENS]]
    assert wrong == []


def test_texts_that_are_short_stay_as_they_are(tokenizers):
    rows = tf.constant([b"", b"a  b", b"\xff\x80", b" " * 16384])
    for tokenizer in tokenizers.values():
        np.testing.assert_array_equal(tokenizer.shorten_text(rows, 8), rows)
        many = tf.constant([b"x" * 40_000, b"y"])
        np.testing.assert_array_equal(tokenizer.shorten_text(many, 8, "windows"), many)


def test_ends_are_cut_at_spaces_and_between_characters():
    def ends(text, **which):
        return keep_ends(tf.constant([text]), 8, lambda text: text, **which).numpy()[0]

    assert ends(b"one two three") == b"one two"
    assert ends(b"one two three", has_head=False, has_tail=True) == b" three"
    assert ends(b"one two three", has_tail=True) == b"one two three"
    assert ends(b"one two three four", has_tail=True) == b"one two four"
    assert ends("éééééé".encode()) == "ééé".encode()
    assert ends("éééééé".encode(), has_head=False, has_tail=True) == "ééé".encode()
    assert ends("xéééééé".encode()) == "xééé".encode()
    assert ends(b"\x80" * 9) == b"\x80" * 8
    # A space far from the end is no place to cut: nearly all would be lost.
    assert ends(b"a bcdefghijk") == b"a bcdef"
    assert ends(b"abcdefghij k", has_head=False, has_tail=True) == b"fghij k"


@pytest.mark.parametrize("unit", [b"word ", b"\0", b"\0 ", b"a  "])
def test_what_is_looked_at_grows_with_the_text_only_where_it_vanishes(unit):
    """Counted in bytes: a constant, or no more than twice for a text twice as long."""
    seen = []

    def squeeze(text):
        seen.append(int(tf.reduce_sum(tf.strings.length(text))))
        for pattern, replacement in make_squeeze_patterns(r"\x00", " "):
            text = tf.strings.regex_replace(text, pattern, replacement)
        return text

    sums = []
    for count in (1 << 16, 1 << 17):
        seen.clear()
        keep_ends(tf.constant([unit * (count // len(unit)), b"short"]), 1024, squeeze)
        sums.append(sum(seen))
    assert sums[1] <= 2.2 * sums[0]
    assert b"\0" in unit or sums[0] == sums[1] <= 10 * 1024


@pytest.fixture(scope="module")
def exact(tokenizers):
    """What SentencePiece itself makes of texts: the tokens and their places."""

    def tokenize(kind, text):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sentencepiece, "squeeze_runs", lambda text, _: (text, Gaps.none()))
            return [found.to_list() for found in tokenizers[kind].tokenize_with_offsets(text)]

    return tokenize


runs = st.tuples(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["\0", "\ue000", "\u1100\u1161", "\u0301\u0323", "\x01", "字", "ｶﾞ", "¨", "\ufffd"]
            ),
            st.sampled_from([b"\x80", b"\xe2\x82", "sea", " ", "\u3000", "\u200b"]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 300),
).map(lambda of: b"".join(part if isinstance(part, bytes) else part.encode() for part in of[0]) * of[1])


@pytest.mark.parametrize("kind", KINDS[:2])
@settings(max_examples=15, deadline=None)
@given(found=st.lists(st.lists(runs, max_size=4).map(b"the sea ".join), min_size=1, max_size=4))
def test_long_runs_of_unknown_characters_change_no_token_and_no_place(tokenizers, exact, kind, found):
    text = tf.constant(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_texts, "LEAST_BYTES", 50)
        patch.setattr(bounded_texts, "_RUN_MARGIN", 8)
        tokens, *places = (of.to_list() for of in tokenizers[kind].tokenize_with_offsets(text))
        assert (
            tokenizers[kind](text).to_list()
            == tokenizers[kind]._sentencepiece.tokenize(tokenizers[kind]._normalize(text)).to_list()
        )
    assert [tokens, *places] == exact(kind, text)


def test_the_middle_of_a_run_is_left_out(tokenizers):
    tokenize = tokenizers["cased"]._sentencepiece.tokenize
    runs = [b"the " + b"\0" * 20_000 + b" sea", b"sea", "\ue000\ue001".encode() * 5_000, b"sea " * 5_000]
    squeezed, gaps = squeeze_runs(tf.constant(runs), tokenize)
    assert [len(text) for text in squeezed.numpy()] == [4 + 1024 + 1 + 4, 3, 3 * 1024 + 1, 20_000]
    np.testing.assert_array_equal(gaps.removed, [0, 20_000 - 1025, 20_000 - 1025 + 30_000 - 3073])
    np.testing.assert_array_equal(
        gaps.original_positions(tf.constant([0, 0, 2, 3]), tf.constant([3, 1030, 3073, 9], tf.int64)),
        [3, 20_005, 30_000, 9],
    )


@pytest.mark.parametrize("piece", ["жчц", "\ufffd"])
def test_unknown_characters_that_are_known_together_are_left_alone(tiny_corpus, piece):
    """And so is a vocabulary that knows the character for what is not UTF-8."""
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter(tiny_corpus.read_text("utf-8").splitlines()),
        model_writer=model,
        vocab_size=200,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=["[CLS]", "[SEP]", "[MASK]"],
        user_defined_symbols=[piece],
        minloglevel=2,
    )
    tokenizer = TokenizerConfig("sentencepiece", (("spiece.model", model.getvalue()),), ()).open()
    known = tokenizer.vocabulary.pieces.index(piece)
    found = tokenizer([(piece.encode() + b"\0") * 3_000]).to_list()[0]
    assert found.count(known) == 3_000
    text = tf.constant([b"\0" * 20_000])
    assert tokenizer._squeeze_runs(text)[0].numpy() == text.numpy()


@pytest.mark.parametrize("kind", KINDS)
def test_a_megabyte_of_anything_takes_a_moment(tokenizers, kind):
    """Less than 0.2 s more than a kilobyte."""
    preprocess = Preprocessor(tokenizers[kind], 128)

    def seconds(text):
        return min(timeit.repeat(lambda: preprocess(text), number=1, repeat=2))

    for unit in GARBAGE:
        short, long = (unit.encode() * (size // len(unit.encode())) for size in (1000, 1_000_000))
        assert seconds(tf.constant([long])) - seconds(tf.constant([short])) < 0.2, unit


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_time_of_a_whole_text_grows_with_the_text(tokenizers, kind):
    """As exported, and as windows need it: of five times the bytes less than 12 times, not 25 times."""
    exported = Preprocessor(tokenizers[kind], 128)

    def seconds(tokenize, text):
        return min(timeit.repeat(lambda: tokenize(tf.constant([text])), number=1, repeat=2))

    for unit in (b"\0", "ж".encode(), "\ue000\ue001".encode(), b"a", b"\x80", b"word "):
        for tokenize in (exported.tokenize, exported.tokenize_with_offsets):
            short, long = (seconds(tokenize, unit * (size // len(unit))) for size in (40_000, 200_000))
            assert long < 12 * short, unit
