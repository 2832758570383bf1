"""Word embeddings from counts: the numbers against definitions written out, and the run that begins so."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy import sparse

from albert_tf.data.documents import hash_bucket, in_hash_range
from albert_tf.data.prepare import prepare
from albert_tf.errors import InputError
from albert_tf.pretraining import cooccurrence
from albert_tf.pretraining import pretrain as run_module
from albert_tf.pretraining.cooccurrence import (
    count_cooccurrences,
    fill_embeddings,
    log_frequencies,
    positive_pmi,
    word_vectors,
)
from albert_tf.pretraining.pretrain import pretrain
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE, corpus_of, weights_of
from tests.tiny import CORPUS, TINY

COUNTED = RECIPE.replace(word_embeddings="cooccurrence")
EMBEDDINGS, BIAS = "embeddings/word_embeddings:0", "cls/predictions/output_bias:0"

# Ten tokens in two documents; 0 never occurs.
TEXT = [np.array([1, 2, 3, 1, 2, 2, 4], np.int32), np.array([], np.int32), np.array([4, 1, 5], np.int32)]


def counted_by_hand(documents, vocab_size, window):
    pairs = np.zeros([vocab_size, vocab_size], int)
    for document in documents:
        for i, j in itertools.product(range(len(document)), repeat=2):
            if 0 < abs(i - j) <= window:
                pairs[document[i], document[j]] += 1
    return pairs


@pytest.mark.parametrize(("window", "at_once"), [(1, 1), (2, 8), (10, 1 << 20)])
def test_counts_of_ten_tokens(window, at_once, monkeypatch):
    monkeypatch.setattr(cooccurrence, "_BLOCK_SIZE", at_once)
    monkeypatch.setattr(cooccurrence, "WINDOW", window)
    found = count_cooccurrences(iter(TEXT), 6)
    assert found.tokens.tolist() == [0, 3, 3, 1, 2, 1]
    np.testing.assert_array_equal(found.pairs.toarray(), counted_by_hand(TEXT, 6, window))
    # By eye: 4 ends a document and begins another, and does not stand near itself.
    if window == 1:
        assert found.pairs[[4], :].toarray().tolist() == [[0, 1, 1, 0, 0, 0]]
        assert found.pairs[2, 2] == 2 and found.pairs[1, 2] == found.pairs[2, 1] == 2


def test_positive_pmi_as_it_is_defined():
    pairs = counted_by_hand(TEXT, 6, 2)
    expected = np.zeros([6, 6])
    contexts = pairs.sum(axis=0) ** 0.75
    for w, c in zip(*np.nonzero(pairs), strict=True):
        ratio = pairs[w, c] / (pairs[w].sum() * contexts[c] / contexts.sum())
        expected[w, c] = max(0.0, np.log(ratio))
    found = positive_pmi(sparse.csr_matrix(pairs.astype(np.int32)))
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-5, atol=1e-6)
    assert 0 < found.nnz == np.count_nonzero(expected) < np.count_nonzero(pairs)


def random_pmi(size=60, rank=None):
    generator = np.random.default_rng(3)
    dense = np.maximum(generator.normal(size=[size, size]), 0)
    if rank is not None:
        dense = generator.uniform(size=[size, rank]) @ generator.uniform(size=[rank, size])
    dense[7] = 0  # a piece without a context
    return dense.astype(np.float32)


@pytest.mark.parametrize(("rank", "width", "columns"), [(None, 8, 8), (None, 80, 59), (5, 8, 5)])
def test_vectors_are_those_of_the_whole_decomposition(rank, width, columns):
    """Up to their signs, which are such that the largest number of each column is positive."""
    dense = random_pmi(rank=rank)
    found = word_vectors(sparse.csr_matrix(dense), width)
    left, values, _ = np.linalg.svd(dense.astype(np.float64))
    assert found.shape == (60, columns) and found.dtype == np.float32
    expected = (left * np.sqrt(values))[:, :columns]
    expected *= np.sign((expected * found).sum(axis=0))
    # The very last of 60 columns belong to values near 0, which float32 does not tell from each other.
    np.testing.assert_allclose(found[:, :40], expected[:, :40], atol=2e-3)
    assert (found[np.abs(found).argmax(axis=0), np.arange(columns)] > 0).all()
    assert not found[7].any() and found[np.arange(60) != 7].any(axis=1).all()


def test_vectors_are_scaled_and_unknown_pieces_left_as_they_are():
    generator = np.random.default_rng(1)
    table = generator.normal(size=[20, 6]).astype(np.float32)
    vectors = generator.normal(size=[20, 4]).astype(np.float32) + 1
    vectors[[0, 5]] = 0
    found, known = fill_embeddings(vectors, table, 0.02), np.setdiff1d(np.arange(20), [0, 5])
    assert found.dtype == np.float32
    assert np.std(found[known, :4]) == pytest.approx(0.02, rel=1e-5)
    factors = found[known, :4] / vectors[known]
    np.testing.assert_allclose(factors, factors[0, 0], rtol=1e-5)
    np.testing.assert_array_equal(found[[0, 5]], table[[0, 5]])
    np.testing.assert_array_equal(found[:, 4:], table[:, 4:])
    np.testing.assert_array_equal(fill_embeddings(vectors[:, :0], table, 0.02), table)


def test_log_frequencies():
    found = log_frequencies(np.array([0, 9, 99]))
    np.testing.assert_allclose(found, np.log([0.1, 1.0, 10.0]), rtol=1e-6)
    assert found.dtype == np.float32


@pytest.fixture
def start_of(begun):
    """The weights that a run of given settings begins with, and what it says of them."""

    def start(made):
        lines = []
        training, _ = begun(pretrain, made, lines.append)
        return weights_of(training.model), lines

    return start


def tokens_of(documents, tokenizer):
    return [
        tokenizer(tf.constant(document.strip().split("\n"))).flat_values.numpy() for document in documents
    ]


@pytest.mark.slow
def test_a_run_begins_so(settings, tiny_tokenizer, start_of):
    """And otherwise as one that is not: whatever is random is the same."""
    random, lines = start_of(settings(recipe=RECIPE))
    assert lines == []
    (found, lines), documents = (
        start_of(settings(recipe=COUNTED)),
        tokens_of(CORPUS.split("\n\n"), tiny_tokenizer),
    )
    assert lines[0] == f"word embeddings from the co-occurrence of {sum(map(len, documents)):,} pieces"
    for name in found.keys() - {EMBEDDINGS, BIAS}:
        np.testing.assert_array_equal(found[name], random[name], err_msg=name)
    times = np.bincount(np.concatenate(documents), minlength=TINY.vocab_size)
    frequencies = np.log((times + 1) / (times + 1).sum())
    np.testing.assert_allclose(found[BIAS], frequencies - frequencies.mean(), rtol=1e-4, atol=1e-5)
    seen, table = times > 0, found[EMBEDDINGS]
    assert not seen[[0, 2, 3, 4]].any() and seen.mean() > 0.8
    np.testing.assert_array_equal(table[~seen], random[EMBEDDINGS][~seen])
    assert np.std(table[seen]) == pytest.approx(CONFIG.initializer_range, rel=1e-5)
    pairs = counted_by_hand(documents, TINY.vocab_size, 5)
    vectors = word_vectors(positive_pmi(sparse.csr_matrix(pairs)), TINY.embedding_size)
    np.testing.assert_allclose(table[seen], vectors[seen] / np.std(vectors[seen]) * 0.02, atol=1e-4)


@pytest.mark.slow
def test_what_is_held_out_is_not_counted(settings, tiny_tokenizer, start_of):
    made = settings(recipe=COUNTED, eval=None)
    found, lines = start_of(made)
    share = corpus_of(made).held_out
    assert share.what.startswith("1 of 8 documents")
    documents = [document.strip() for document in CORPUS.split("\n\n")]
    inside = in_hash_range(hash_bucket(tf.constant(documents)), (share.begin, share.end)).numpy()
    tokens = tokens_of(itertools.compress(documents, ~inside), tiny_tokenizer)
    assert len(tokens) == 7 and lines[0].endswith(f"of {sum(map(len, tokens)):,} pieces")
    expected = log_frequencies(np.bincount(np.concatenate(tokens), minlength=TINY.vocab_size))
    np.testing.assert_array_equal(found[BIAS], expected)


def test_no_more_is_counted_than_serves(settings, monkeypatch, start_of):
    monkeypatch.setattr(run_module, "MAX_COUNTED", 1234)
    assert start_of(settings(recipe=COUNTED))[1][0].endswith("of 1,234 pieces")


def test_what_cannot_be_counted_or_is_said_twice(settings, run, tiny_corpus, tiny_vocabulary, tmp_path):
    with pytest.raises(InputError, match=r"word_embeddings.*init_from"):
        settings(recipe=COUNTED, init_from=run)
    prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, shards=1, format="examples", seq_length=32)
    with pytest.raises(InputError, match=r"train-00000-of-00001.* holds finished examples"):
        pretrain(settings(tmp_path / "run", recipe=COUNTED, train=[str(tmp_path / "out")]))
    assert not (tmp_path / "run").exists()
