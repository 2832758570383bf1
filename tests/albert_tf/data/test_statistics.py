"""The paper's figures over more than 20,000 examples from real text."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from tests.albert_tf.data.test_pretraining import original_ids

LENGTH = 128
SEED = tf.constant([7, 8], tf.int64)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def vocabulary(shared):
    return SentencePieceVocabulary.from_file(shared / "data/vocabulary/30k-clean.model")


@pytest.fixture(scope="module")
def examples(shared):
    """One epoch: the batches' tensors, each of all rows."""
    files = [str(shared / "data/corpus" / name) for name in ("wiki_ugolbck.txt", "gutenberg.txt")]
    dataset = albert_tf.pretraining_dataset(
        files, shared / "data/vocabulary/30k-clean.model", 64, LENGTH, repeat=False, seed=3
    )
    batches = list(dataset.as_numpy_iterator())
    rows = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    real = rows["input_mask"].any(axis=1)
    rows = {name: tensor[real] for name, tensor in rows.items()}
    assert len(rows["input_mask"]) > 20_000
    return rows


def test_the_papers_figures(examples, vocabulary):
    ordinary = examples["input_mask"].sum(axis=1) - 3
    assert examples["masked_lm_weights"].sum() / ordinary.sum() == pytest.approx(0.15, abs=0.003)
    assert examples["sentence_order_labels"].mean() == pytest.approx(0.5, abs=0.01)
    masked = examples["masked_lm_weights"] > 0
    shown = np.take_along_axis(examples["input_word_ids"], examples["masked_lm_positions"], axis=1)[masked]
    ids = examples["masked_lm_ids"][masked]
    assert np.mean(shown == 4) == pytest.approx(0.8, abs=0.01)
    assert np.mean(shown == ids) == pytest.approx(0.1, abs=0.01)
    others = shown[(shown != 4) & (shown != ids)]
    assert len(others) / len(shown) == pytest.approx(0.1, abs=0.01)
    assert np.isin(others, vocabulary.ordinary_ids).all()
    assert not np.isin(ids, [0, 2, 3]).any()


def test_whole_words_are_masked(examples, vocabulary):
    """Neighbours in a word are masked together."""
    original = original_ids(examples)
    masked = np.zeros(original.shape, bool)
    rows, columns = np.nonzero(examples["masked_lm_weights"])
    masked[rows, examples["masked_lm_positions"][rows, columns]] = True
    text = (examples["input_mask"] == 1) & (original > 4) | (original == 1)
    goes_on = text[:, 1:] & text[:, :-1] & ~vocabulary.starts_word[original[:, 1:]]
    assert goes_on.sum() > 100_000
    assert (masked[:, 1:] == masked[:, :-1])[goes_on].all()
