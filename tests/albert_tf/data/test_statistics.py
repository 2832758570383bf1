"""The paper's figures and the sources of all examples, over more than 20,000 of them from real text."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.data.documents import text_documents, tokenized
from albert_tf.tokenizers.tokenizer import PieceTokenizer
from albert_tf.tokenizers.vocabulary import Vocabulary

LENGTH = 128
SEED = tf.constant([7, 8], tf.int64)
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def files(shared):
    return [str(shared / "data/corpus" / name) for name in ("wiki_ugolbck.txt", "gutenberg.txt")]


@pytest.fixture(scope="module")
def vocabulary(shared):
    return Vocabulary.from_file(shared / "data/vocabulary/30k-clean.model")


@pytest.fixture(scope="module")
def examples(files, shared):
    """One epoch: the batches' tensors, each of all rows."""
    dataset = albert_tf.pretraining_dataset(
        files, shared / "data/vocabulary/30k-clean.model", 64, LENGTH, repeat=False, seed=3
    )
    batches = list(dataset.as_numpy_iterator())
    rows = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    real = rows["input_mask"].any(axis=1)
    rows = {name: tensor[real] for name, tensor in rows.items()}
    assert len(rows["input_mask"]) > 20_000
    return rows


def unmasked(batch):
    """The token ids of a batch with the masks undone."""
    ids = batch["input_word_ids"].copy()
    rows, columns = np.nonzero(batch["masked_lm_weights"])
    ids[rows, batch["masked_lm_positions"][rows, columns]] = batch["masked_lm_ids"][rows, columns]
    return ids


@pytest.fixture(scope="module")
def original(examples):
    """The token ids with the masks undone."""
    return unmasked(examples)


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
    assert vocabulary.ordinary[others].all()
    assert not np.isin(ids, [0, 2, 3]).any()


def test_whole_words_are_masked(examples, original, vocabulary):
    """Neighbours in a word are masked together."""
    masked = np.zeros(original.shape, bool)
    rows, columns = np.nonzero(examples["masked_lm_weights"])
    masked[rows, examples["masked_lm_positions"][rows, columns]] = True
    text = (examples["input_mask"] == 1) & (original > 4) | (original == 1)
    goes_on = text[:, 1:] & text[:, :-1] & ~vocabulary.starts_word[original[:, 1:]]
    assert goes_on.sum() > 100_000
    assert (masked[:, 1:] == masked[:, :-1])[goes_on].all()


class Source:
    """All tokens of the text in order, and where a run of them occurs."""

    def __init__(self, files, vocabulary):
        tokenizer = PieceTokenizer(vocabulary)  # SentencePiece itself
        blocks = [
            tokenized(texts, tokenizer)
            for file in files
            for texts in text_documents(file).map(lambda text, _: text).batch(64)
        ]
        lengths, self.document = [], []
        for block in blocks:
            sentence_of = np.repeat(np.arange(len(block.sentences)), block.sentences)
            tokens_of = np.bincount(
                sentence_of, weights=block.sentence_lengths, minlength=len(block.sentences)
            )
            lengths += tokens_of.astype(int).tolist()
        self.tokens = np.concatenate([block.tokens.numpy() for block in blocks])
        self.document = np.repeat(np.arange(len(lengths)), lengths)
        self._sorted = {}

    def places(self, run):
        """Every position at which a run of tokens begins."""
        width = min(len(run), 8)
        if width not in self._sorted:
            hashes = self._hash(self.tokens, width)
            order = np.argsort(hashes, kind="stable")
            self._sorted[width] = hashes[order], order
        hashes, order = self._sorted[width]
        wanted = self._hash(run[:width], width)[0]
        candidates = order[np.searchsorted(hashes, wanted) : np.searchsorted(hashes, wanted, side="right")]
        return [i for i in candidates if (self.tokens[i : i + len(run)] == run).all()]

    @staticmethod
    def _hash(tokens, width):
        tokens = tokens.astype(np.uint64)
        with np.errstate(over="ignore"):
            factors = np.uint64(1_000_003) ** np.arange(width, dtype=np.uint64)
            windows = np.lib.stride_tricks.sliding_window_view(tokens, width)
            return (windows * factors).sum(axis=1, dtype=np.uint64)


def test_every_example_is_text_of_the_source(files, vocabulary, examples, original):
    """Both segments verbatim, of one document, in the order that the label says; untrimmed ones adjacent."""
    source = Source(files, vocabulary)
    types, mask = examples["input_type_ids"], examples["input_mask"]
    for row in range(len(original)):
        real = original[row][mask[row] == 1]
        kinds = types[row][mask[row] == 1]
        a, b = real[kinds == 0][1:-1], real[kinds == 1][:-1]
        left, right = (b, a) if examples["sentence_order_labels"][row] else (a, b)
        rights = source.places(right)
        if len(real) < LENGTH:
            assert any(i + len(left) in rights for i in source.places(left)), row
        else:
            documents = source.document
            assert any(
                documents[i] == documents[j] and i + len(left) <= j
                for i in source.places(left)
                for j in rights
            ), row
