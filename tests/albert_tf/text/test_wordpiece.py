import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.text.packing import pack
from albert_tf.text.wordpiece import WordPieceTokenizer, WordPieceVocabulary, basic_words
from tests.fuzz import fuzzed_texts

SMALL = "[PAD] [UNK] [CLS] [SEP] [MASK] [unused0] un ##aff ##able ! a ##b".replace(" ", "\n").encode()


@pytest.fixture(scope="module")
def recorded(shared):
    """BERT's vocabulary, 414 texts, and their ids by google-research/bert's FullTokenizer."""
    tokens = shared / "golden/family/tokens"
    vocabulary = WordPieceVocabulary.from_file(shared / "data/vocabulary/bert_uncased/vocab.txt")
    texts, ids = (json.loads((tokens / f"{name}.json").read_text()) for name in ("strings", "bert_ids"))
    return vocabulary, texts, ids


@pytest.mark.parametrize("form", ["lower", "cased"])
def test_ids_of_the_original(recorded, form):
    vocabulary, texts, ids = recorded
    tokenizer = WordPieceTokenizer(vocabulary, lowercase=form == "lower", strip_accents=form == "lower")
    assert tokenizer(tf.constant(texts)).to_list() == ids[form]
    assert tokenizer.tokenize_with_offsets(tf.constant(texts))[0].to_list() == ids[form]


def test_offsets_cut_the_bytes_of_each_piece(recorded):
    vocabulary, texts, _ = recorded
    tokenizer = WordPieceTokenizer(vocabulary)
    texts = [text.encode() for text in texts] + fuzzed_texts(200, longest=2000)
    tokens, starts, limits = tokenizer.tokenize_with_offsets(tf.constant(texts))
    assert tokens.to_list() == tokenizer(tf.constant(texts)).to_list()
    rows = tokens.value_rowids().numpy()
    cuts = [
        texts[row][start:limit]
        for row, start, limit in zip(rows, starts.values.numpy(), limits.values.numpy(), strict=True)
    ]
    normalized = [text.decode() for text in basic_words(tf.constant(cuts)).numpy()]
    pieces = [vocabulary.pieces[i] for i in tokens.values.numpy()]
    wrong = [
        (piece, cut)
        for piece, cut in zip(pieces, normalized, strict=True)
        if piece != "[UNK]" and piece.removeprefix("##") not in cut
    ]
    assert not wrong
    assert (starts.values[1:] >= starts.values[:-1])[rows[1:] == rows[:-1]].numpy().all()


def test_in_a_graph_and_in_a_dataset():
    tokenizer = WordPieceTokenizer(WordPieceVocabulary({"vocab.txt": SMALL}))
    texts = tf.constant(["Unaffable! zz", "", "áb" * 201, " ab\tab "])
    expected = [[6, 7, 8, 9, 1], [], [1], [10, 11, 10, 11]]
    assert tokenizer(texts).to_list() == expected
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(3).map(tokenizer)
    assert [row for batch in dataset for row in batch.to_list()] == expected
    _, starts, limits = tf.function(tokenizer.tokenize_with_offsets)(texts)
    assert starts.to_list() == [[0, 2, 5, 9, 11], [], [0], [1, 2, 4, 5]]
    assert limits.to_list() == [[2, 5, 9, 10, 13], [], [3 * 201], [2, 3, 5, 6]]
    words, starts, limits = tokenizer.tokenize_words_with_offsets(texts)
    assert words.to_list() == tokenizer.tokenize_words(texts).to_list()
    assert words.to_list() == [[[6, 7, 8], [9], [1]], [], [[1]], [[10, 11], [10, 11]]]
    assert starts.to_list() == [[[0, 2, 5], [9], [11]], [], [[0]], [[1, 2], [4, 5]]]
    assert limits.to_list() == [[[2, 5, 9], [10], [13]], [], [[3 * 201]], [[2, 3], [5, 6]]]


def test_a_static_batch_size_stays_one():
    """TPUs need it."""
    tokenizer = WordPieceTokenizer(WordPieceVocabulary({"vocab.txt": SMALL}))
    texts = tf.data.Dataset.from_tensor_slices(["ab"] * 8).batch(8, drop_remainder=True)
    packed = texts.map(lambda text: pack([tokenizer(text)] * 2, 16, tokenizer.vocabulary)).element_spec
    assert {spec.shape for spec in packed.values()} == {tf.TensorShape([8, 16])}
    for tokenize in (tokenizer.tokenize_with_offsets, tokenizer.tokenize_words_with_offsets):
        assert {spec.shape[0] for spec in texts.map(tokenize).element_spec} == {8}


def test_line_ends_end_a_piece_and_unicodes_other_breaks_do_not():
    pieces = ["[PAD]", "\u2028", "[UNK]", "[CLS]", "a\x85b", "[SEP]", "[MASK]", "sea"]
    for ending in ("\n", "\r\n", "\r"):
        vocabulary = WordPieceVocabulary({"vocab.txt": "".join(piece + ending for piece in pieces).encode()})
        assert vocabulary.pieces == tuple(pieces)
        assert WordPieceTokenizer(vocabulary)(tf.constant(["Sea"])).to_list() == [[7]]


def test_what_the_ids_mean():
    vocabulary = WordPieceVocabulary({"vocab.txt": SMALL})
    assert vocabulary.special_ids == (0, 1, 2, 3, 4)
    assert vocabulary.input_format.between == (3,)
    assert vocabulary.ordinary_ids.tolist() == [6, 7, 8, 9, 10, 11]
    assert np.flatnonzero(~vocabulary.starts_word).tolist() == [7, 8, 11]
    assert len(vocabulary) == 12


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\na", ""),
        (b"[PAD]\n\xff", ""),
        (SMALL + b"\n##b", ":13: '##b' is on line 12"),
        (SMALL + b"\n\n\n", ":14: '' is on line 13"),
        (SMALL + b"\n\0\n", r":13: '\\x00' has a NUL"),
        (SMALL + b"\n" + b"x" * 257, ":13: 'x*…' has .* 256 bytes"),
    ],
)
def test_files_that_are_none(content, value, tmp_path):
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(InputError, match=rf"vocab\.txt{value}"):
        WordPieceVocabulary.from_file(tmp_path / "vocab.txt")


def test_like_transformers():
    """What its BertNormalizer makes of texts, as recorded, where it differs from Google's code."""
    texts = ["ΟΔΟΣ ΣΑΣ.", "x\ue000y", "a\U0002b825b", "a\U0002b930b", "İ ẞ"]
    theirs = ["οδοσ σασ . ", "xy", "a\U0002b825b", "a \U0002b930 b", "i ß"]
    googles = ["οδος σας . ", "x\ue000y", "a \U0002b825 b", "a \U0002b930 b", "i ß"]
    for like_transformers, expected in ((True, theirs), (False, googles)):
        found = basic_words(tf.constant(texts), like_transformers=like_transformers)
        assert [text.decode() for text in found.numpy()] == expected


def test_a_final_sigma_has_the_same_token_with_offsets():
    """What stands around it decides, though offsets lowercase each character alone."""
    letters = "ΟδΣσς.' -´\u0301\u00ad,A日"
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"οδσςa日.'-´,", *(f"##{x}" for x in "οδσςa")]
    vocabulary = WordPieceVocabulary({"vocab.txt": "\n".join(pieces).encode()})
    draw = random.Random(0)
    texts = ["ΟΔΟΣ ΣΑΣ.", *("".join(draw.choices(letters, k=draw.randrange(1, 12))) for _ in range(2000))]
    for settings in ({}, {"strip_accents": False}, {"like_transformers": True}):
        tokenizer = WordPieceTokenizer(vocabulary, **settings)
        tokens, _, limits = tokenizer.tokenize_with_offsets(tf.constant(texts))
        assert tokens.to_list() == tokenizer(tf.constant(texts)).to_list()
        assert limits[0].numpy().tolist()[-1] == len("ΟΔΟΣ ΣΑΣ.".encode())


LOWERCASED = """
import tensorflow as tf
from albert_tf.text.wordpiece import basic_words
texts = [chr(code) for code in range(0x250)] + ["I\u0307 J\u0300 Į\u0303", "Ì\u0301"]
for strip_accents in (True, False):
    print(basic_words(tf.constant(texts), strip_accents=strip_accents).numpy().tolist())
"""


@pytest.mark.slow
def test_letters_are_the_same_wherever_the_user_lives():
    said = {
        subprocess.run(
            [sys.executable, "-c", LOWERCASED],
            env={**os.environ, "LC_ALL": f"{locale}.UTF-8"},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for locale in ("C", "tr_TR", "lt_LT")
    }
    assert len(said) == 1
