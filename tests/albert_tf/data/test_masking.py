import types

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.data.masking import (
    mask_budget,
    mask_tokens,
    ngram_length_probabilities,
    ngram_spans,
    sample_spans,
    word_numbers,
)
from albert_tf.recipes import ExampleSettings
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.text_tokenizer import ALBERT_IDS
from tests.albert_tf.data.test_pretraining import original_ids

SEED = tf.constant([5, 6], tf.int64)
PIECES = 50  # ids 5 … 24 begin a word, 25 … 49 go on with one
STARTS_WORD = tf.constant([False] * 5 + [True] * 20 + [False] * 25)
ORDINARY_IDS = tf.range(5, PIECES)


def batch(rows, length, first=None, total=None, seed=0):
    """Random rows of `[CLS] a [SEP] b [SEP]`, and which segment each token is of."""
    generator = np.random.default_rng(seed)
    word_ids = generator.integers(5, PIECES, (rows, length))
    segments = np.zeros((rows, length), int)
    for row in range(rows):
        words = generator.integers(2, length - 2) if total is None else total
        a = generator.integers(1, words) if first is None else first
        segments[row, 1 : a + 1] = 1
        segments[row, a + 2 : words + 2] = 2
        word_ids[row, [0, a + 1, words + 2]] = 2, 3, 3
        word_ids[row, words + 3 :] = 0
    return tf.constant(word_ids, tf.int32), tf.constant(segments, tf.int32)


def masked(word_ids, segments, seed=SEED, **options):
    settings = ExampleSettings(**{"max_predictions": 20, **options})
    vocabulary = types.SimpleNamespace(
        starts_word=STARTS_WORD.numpy(), ordinary_ids=ORDINARY_IDS.numpy(), special_ids=ALBERT_IDS
    )
    return mask_tokens(word_ids, segments, seed, vocabulary, settings)


def words_by_hand(word_ids, segments):
    """The tokens of each word of each segment of one row, as lists of positions."""
    words = {1: [], 2: []}
    for position, segment in enumerate(segments):
        if segment:
            if segments[position - 1] != segment or STARTS_WORD[word_ids[position]]:
                words[segment].append([])
            words[segment][-1].append(position)
    return words


def test_ngram_length_probabilities():
    assert ngram_length_probabilities(3) == pytest.approx([6 / 11, 3 / 11, 2 / 11])
    assert ngram_length_probabilities(1).tolist() == [1]
    with pytest.raises(ValueError, match="max_ngram=0 must be at least 1"):
        ngram_length_probabilities(0)


def tiled(word_ids, segments, max_ngram=3, whole_word=True):
    words, first = word_numbers(word_ids, segments, STARTS_WORD, whole_word)
    return ngram_spans(words, first, segments, max_ngram, SEED).numpy()


def test_tiles_are_whole_words_of_one_segment_in_order():
    word_ids, segments = batch(200, 40)
    tile = tiled(word_ids, segments)
    assert tile.min() >= 0
    assert tile.max() <= 40
    for row in range(200):
        words = words_by_hand(word_ids.numpy()[row], segments.numpy()[row])
        of_words = {}
        for segment, positions in words.items():
            numbers = [set(tile[row, word]) for word in positions]
            assert all(len(number) == 1 for number in numbers)  # a word is in one tile
            of_words[segment] = [number.pop() for number in numbers]
            assert (np.diff(of_words[segment]) >= 0).all()
            _, sizes = np.unique(of_words[segment], return_counts=True)
            assert sizes.max() <= 3
        assert set(of_words[1]).isdisjoint(of_words[2])


@pytest.mark.parametrize("max_ngram", [1, 3])
def test_tile_lengths(max_ngram):
    """p(n) ∝ 1/n, in both segments, but for the tile that the segment's end cuts short."""
    word_ids, segments = batch(300, 512, first=250, total=509)
    tile = tiled(word_ids, segments, max_ngram, whole_word=False)
    for segment in (1, 2):
        lengths = []
        for row, of_row in zip(tile, segments.numpy() == segment, strict=True):
            _, sizes = np.unique(row[of_row], return_counts=True)
            lengths += sizes[:-1].tolist()
        shares = np.bincount(lengths, minlength=max_ngram + 1)[1:] / len(lengths)
        assert shares == pytest.approx(ngram_length_probabilities(max_ngram), abs=0.01)


def test_as_many_tiles_are_chosen_as_fit():
    generator = np.random.default_rng(1)
    sizes = generator.integers(0, 7, (300, 25))
    budget = generator.integers(1, 60, 300)
    taken = sample_spans(tf.constant(sizes, tf.int32), tf.constant(budget, tf.int32), SEED).numpy()
    for of_row, is_taken, most in zip(sizes, taken, budget, strict=True):
        left = most - of_row[is_taken].sum()
        assert left >= 0
        assert of_row[is_taken].min(initial=9) > 0
        assert of_row[(of_row > 0) & ~is_taken].min(initial=99) > left


def test_order_of_tiles_is_uniform():
    """With a budget of two tiles, each pair of five is as likely as any other."""
    taken = sample_spans(tf.ones([20_000, 5], tf.int32), tf.fill([20_000], 2), SEED).numpy()
    assert (taken.sum(axis=1) == 2).all()
    pairs = np.bincount(taken @ (1 << np.arange(5)))
    assert sorted(np.flatnonzero(pairs)) == [i for i in range(32) if bin(i).count("1") == 2]
    assert np.abs(pairs[pairs > 0] / 20_000 - 0.1).max() < 0.01


def test_budget_is_pythons():
    counts = np.arange(0, 600)
    for share in (0.15, 0.1, 0.5):
        expected = [min(40, max(1, round(share * int(n)))) for n in counts]
        assert mask_budget(tf.constant(counts, tf.int32), share, 40).numpy().tolist() == expected


@pytest.mark.parametrize("whole_word", [True, False])
def test_rows_against_the_definition(whole_word):
    word_ids, segments = batch(150, 64)
    masked_ids, padded_positions, ids = (x.numpy() for x in masked(word_ids, segments, whole_word=whole_word))
    word_ids, segments = word_ids.numpy(), segments.numpy()
    spent = []
    for row in range(150):
        count = np.count_nonzero(padded_positions[row])
        positions = padded_positions[row][:count]
        assert not padded_positions[row][count:].any()
        assert not ids[row][count:].any()
        assert (np.diff(positions) > 0).all()
        assert segments[row, positions].all()  # never [CLS], [SEP] or padding
        assert (ids[row][:count] == word_ids[row, positions]).all()
        untouched = np.delete(np.arange(64), positions)
        assert (masked_ids[row, untouched] == word_ids[row, untouched]).all()
        spent.append(count - min(20, max(1, round(0.15 * int((segments[row] > 0).sum())))))
        if whole_word:
            chosen = set(positions.tolist())
            for words in words_by_hand(word_ids[row], segments[row]).values():
                assert all(chosen.issuperset(word) or chosen.isdisjoint(word) for word in words)
    assert max(spent) <= 0
    if not whole_word:
        assert np.mean(np.array(spent) == 0) > 0.9  # pieces fill the budget but for a last long tile


def test_replacements():
    word_ids, segments = batch(3000, 128, first=60, total=120)
    word_ids = tf.where(segments > 0, 7, word_ids)
    masked_ids, positions, _ = masked(word_ids, segments, max_predictions=18)
    shown = tf.gather(masked_ids, positions, batch_dims=1).numpy()[positions.numpy() > 0]
    assert len(shown) > 50_000
    assert np.mean(shown == 4) == pytest.approx(0.8, abs=0.01)
    random = shown[(shown != 4) & (shown != 7)]
    assert len(random) / len(shown) == pytest.approx(0.1 * 44 / 45, abs=0.01)
    assert random.min() == 5
    assert random.max() == PIECES - 1
    counts = np.bincount(random)[[5, 6, *range(8, PIECES)]]
    assert counts.min() > 0.6 * counts.mean()


def test_rows_without_words_and_no_rows():
    rows = tf.constant([[2, 3, 3, 0], [0, 0, 0, 0]])
    masked_ids, positions, ids = masked(rows, tf.zeros([2, 4], tf.int32))
    assert not positions.numpy().any() and not ids.numpy().any()
    assert masked_ids.numpy().tolist() == rows.numpy().tolist()
    nothing = tf.zeros([0, 40], tf.int32)
    assert [tensor.shape for tensor in masked(nothing, nothing)] == [[0, 40], [0, 20], [0, 20]]


def test_in_graph_with_unknown_sizes_as_eagerly():
    word_ids, segments = batch(6, 64)
    spec = tf.TensorSpec([None, None], tf.int32)
    graph = tf.function(masked, input_signature=[spec, spec])(word_ids, segments)
    for tensor, of_graph in zip(masked(word_ids, segments), graph, strict=True):
        assert (tensor.numpy() == of_graph.numpy()).all()


# The paper's figures over more than 20,000 examples from real text.

LENGTH = 128


@pytest.fixture(scope="module")
def vocabulary(published_vocabulary):
    return SentencePieceVocabulary.from_file(published_vocabulary)


@pytest.fixture(scope="module")
def examples(shared, published_vocabulary):
    """One epoch: the batches' tensors, each of all rows."""
    files = [str(shared / "data/corpus" / name) for name in ("wiki_ugolbck.txt", "gutenberg.txt")]
    dataset = albert_tf.pretraining_dataset(files, published_vocabulary, 64, LENGTH, repeat=False, seed=3)
    batches = list(dataset.as_numpy_iterator())
    rows = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    real = rows["input_mask"].any(axis=1)
    rows = {name: tensor[real] for name, tensor in rows.items()}
    assert len(rows["input_mask"]) > 20_000
    return rows


@pytest.mark.slow
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


@pytest.mark.slow
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
