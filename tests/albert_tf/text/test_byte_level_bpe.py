import itertools
import json
import random

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.text.byte_level_bpe import BytePairTokenizer, BytePairVocabulary, byte_characters, opens_word
from albert_tf.text.offsets import cut_where
from tests.fuzz import fuzzed_texts

MERGES = ["a a", "aa a", "b c", "a bc", "Ġ a", "aa aa"]


@pytest.fixture(scope="module")
def gpt2(shared):
    return BytePairVocabulary.from_file(shared / "data/vocabulary/gpt2")


def toy(specials=("<s>", "<pad>", "</s>", "<unk>")):
    tokens = [*specials, *byte_characters(), *(merge.replace(" ", "") for merge in MERGES), "<mask>"]
    ids = {token: number for number, token in enumerate(tokens)}
    merges = "#version: 0.2\n" + "\n".join(MERGES)
    return BytePairVocabulary({"vocab.json": json.dumps(ids).encode(), "merges.txt": merges.encode()})


def by_hand(word):
    """Tokens of a word: its pair of the lowest rank is joined from left to right, as long as there is one."""
    parts = [byte_characters()[byte] for byte in word]
    while True:
        ranks = [MERGES.index(pair) for pair in map(" ".join, itertools.pairwise(parts)) if pair in MERGES]
        if not ranks:
            return parts
        left, right = MERGES[min(ranks)].split(" ")
        joined, place = [], 0
        while place < len(parts):
            two = parts[place : place + 2] == [left, right]
            joined.append(left + right if two else parts[place])
            place += 2 if two else 1
        parts = joined


def test_ids_of_the_original(gpt2, shared):
    tokens = shared / "golden/family/tokens"
    texts, ids = (
        json.loads((tokens / f"{name}.json").read_text()) for name in ("strings", "byte_level_bpe_ids")
    )
    assert BytePairTokenizer(gpt2)(tf.constant(texts)).to_list() == ids


def test_merges_by_hand():
    source = random.Random(0)
    words = ["".join(source.choices("aaabc", k=source.randint(1, 12))) for _ in range(100)]
    vocabulary = toy()
    got = BytePairTokenizer(vocabulary)(tf.constant(words)).to_list()
    assert [[vocabulary.pieces[i] for i in row] for row in got] == [by_hand(word.encode()) for word in words]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I'll say 'twas John's", ["I", "'ll", " say", " '", "twas", " John", "'s"]),
        ("it's'veryx", ["it", "'s", "'ve", "ryx"]),
        ("a.'s ''s\n's", ["a", ".'", "s", " ''", "s", "\n", "'s"]),
        ("a  b \t\n c   ", ["a", " ", " b", " \t\n", " c", "   "]),
        ("a\n\nb", ["a", "\n", "\n", "b"]),
        ("x12,é½ 3", ["x", "12", ",", "é", "½", " 3"]),
        ("'", ["'"]),
        ("a'", ["a", "'"]),
        ("", []),
    ],
)
def test_words_of_the_expression(text, words):
    found = cut_where(tf.constant(["z", text, "s"]), opens_word)
    assert [word.decode() for word in found.text.numpy()] == ["z", *words, "s"]
    assert found.rows.numpy().tolist() == [0, *([1] * len(words)), 2]


def test_offsets_cut_the_bytes_of_each_token(gpt2):
    texts = fuzzed_texts(80, longest=150)
    tokenizer = BytePairTokenizer(gpt2)
    tokens, starts, limits = tf.function(tokenizer.tokenize_with_offsets)(tf.constant(texts))
    byte_of = {character: byte for byte, character in enumerate(byte_characters())}
    rows = tokens.value_rowids().numpy()
    for row, token, start, limit in zip(
        rows, tokens.values.numpy(), starts.values.numpy(), limits.values.numpy(), strict=True
    ):
        assert texts[row][start:limit] == bytes(byte_of[character] for character in gpt2.pieces[token])
    together = np.zeros(len(texts), np.int64)
    np.add.at(together, rows, (limits - starts).values.numpy())
    assert together.tolist() == list(map(len, texts))
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(64).map(tokenizer)
    assert [row for batch in dataset for row in batch.to_list()] == tokens.to_list()


def test_what_the_ids_mean():
    vocabulary = toy()
    assert vocabulary.special_ids == (1, 3, 0, 2, len(vocabulary) - 1)
    input_format = vocabulary.input_format
    assert (input_format.start, input_format.between, input_format.end) == ((0,), (2, 2), (2,))
    assert input_format.padding == 1
    assert not input_format.has_type_ids
    assert vocabulary.ordinary_ids.tolist() == list(range(4, len(vocabulary) - 1))
    starts = [vocabulary.pieces[i] for i in np.flatnonzero(vocabulary.starts_word)]
    assert starts == ["Ġ", "Ġa"]


@pytest.mark.parametrize(
    ("vocabulary", "merges"),
    [(b"{", b""), (b'{"a": 0}', b""), (b"[]", b""), (None, b"q q"), (None, b"a b c")],
)
def test_files_that_are_none(vocabulary, merges):
    vocabulary = toy().files["vocab.json"] if vocabulary is None else vocabulary
    with pytest.raises(ValueError, match="here"):
        BytePairVocabulary({"vocab.json": vocabulary, "merges.txt": merges}, "here")


def changed(name, change):
    """The files of the toy vocabulary, of which one is changed."""
    files = toy().files
    return {**files, name: change(files[name])}


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (changed("merges.txt", lambda text: b""), "tokens, such as 'aa', are made by no line of merges.txt"),
        (changed("merges.txt", lambda text: text.rsplit(b"\n", 1)[0]), "1 tokens.* are made by no line"),
        (changed("merges.txt", lambda text: b"\xef\xbb\xbf" + text), "byte order mark"),
        (changed("vocab.json", lambda text: text.replace(b": 5,", b': "5",')), "the id of .* is '5'"),
        (changed("vocab.json", lambda text: text.replace(b": 5,", b": true,")), "the id of .* is True"),
    ],
)
def test_files_that_are_not_whole(files, line):
    with pytest.raises(InputError, match=f"^here: .*{line}"):
        BytePairVocabulary(files, "here")


def test_tokens_that_stand_for_no_text_need_no_merge():
    ids = json.loads(toy().files["vocab.json"])
    ids |= {name: len(ids) + n for n, name in enumerate(("<|endoftext|>", "[PAD]", "madeupword0001"))}
    files = {**toy().files, "vocab.json": json.dumps(ids).encode()}
    assert len(BytePairVocabulary(files, "here")) == len(toy()) + 3


def test_line_ends_of_the_merges():
    files = toy().files
    for ending in (b"\r\n", b"\r"):
        other = BytePairVocabulary(
            {**files, "merges.txt": files["merges.txt"].replace(b"\n", ending)}, "here"
        )
        np.testing.assert_array_equal(other.merges, toy().merges)


def test_special_tokens_are_asked_for_when_inputs_are_framed():
    with pytest.raises(ValueError, match="<pad>"):
        _ = toy(specials=("<s>", "</s>", "<unk>")).special_ids


def test_texts_of_tokens(gpt2):
    texts = dict(zip(gpt2.pieces, gpt2.texts, strict=True))
    assert [texts[token] for token in ("Ġcity", "Ã©", "Ġ", "Ã", "<|endoftext|>")] == [
        "city",
        "é",
        "Ġ",
        "�",
        "<|endoftext|>",
    ]
