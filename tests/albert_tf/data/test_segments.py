import numpy as np
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.documents import Documents
from albert_tf.data.segments import (
    chunk_ends,
    chunk_starts,
    random_next_pairs,
    segment_pairs,
    single_segments,
    target_lengths,
    trim_starts,
)

SEED = tf.constant([3, 4], tf.int64)


def block(lengths):
    """Documents of sentences of so many tokens; token t of all of them has the id t."""
    sentences = [length for document in lengths for length in document]
    return Documents(
        tf.range(sum(sentences)),
        tf.constant(sentences, tf.int32, [len(sentences)]),
        tf.constant([len(document) for document in lengths], tf.int32, [len(lengths)]),
    )


def chunks_by_hand(lengths, targets):
    """Sentence ranges of chunks, one sentence after the other as google-research/albert does it."""
    chunks, first = [], 0
    for document in lengths:
        start, tokens = first, 0
        for i, length in enumerate(document):
            tokens += length
            if tokens >= targets[start] or i == len(document) - 1:
                chunks.append((start, first + i + 1))
                start, tokens = first + i + 1, 0
        first += len(document)
    return chunks


documents_of_any_kind = st.lists(st.lists(st.integers(1, 30), max_size=12), max_size=8)


@settings(max_examples=60, deadline=None)
@given(documents_of_any_kind, st.integers(0, 2**31 - 1))
def test_chunks_by_hand(lengths, seed):
    count = sum(map(len, lengths))
    targets = np.random.default_rng(seed).integers(2, 40, count)
    documents = block(lengths)
    ends = chunk_ends(documents, tf.constant(targets, tf.int32))
    starts = chunk_starts(documents, ends)
    found = [(start, ends.numpy()[start]) for start in starts.numpy()]
    assert found == chunks_by_hand(lengths, targets)


def test_short_targets():
    targets = target_lengths(tf.constant(100_000), 125, 0.1, SEED).numpy()
    short = targets < 125
    assert abs(short.mean() - 0.1) < 0.003
    assert targets[short].min() == 2
    assert targets.max() == 125
    assert abs(targets[short].mean() - (2 + 124) / 2) < 1.5


def spans(segments):
    """(a, b, label) of each example, in token positions."""
    starts, lengths = np.stack(segments.starts), np.stack(segments.lengths)
    sides = [
        [range(s, s + n) for s, n in zip(*side, strict=True)] for side in zip(starts, lengths, strict=True)
    ]
    return list(zip(*sides, segments.labels.numpy(), strict=True))


def check_pairs(lengths, starts_word, seq_length, segments):
    """Each pair against its definition."""
    ends = np.cumsum([length for document in lengths for length in document])
    borders = {0, *ends.tolist()}
    document_ends = np.cumsum([sum(document) for document in lengths])
    for a, b, label in spans(segments):
        assert a and b
        assert len(a) + len(b) <= seq_length - 3
        left, right = (b, a) if label else (a, b)
        assert left.stop <= right.start
        document = np.searchsorted(document_ends, left.start, side="right")
        assert document == np.searchsorted(document_ends, right.stop - 1, side="right")
        if len(a) + len(b) < seq_length - 3:  # nothing was trimmed
            assert left.stop == right.start
            assert {left.start, right.stop} <= borders
            inner = [border for border in borders if left.start < border < right.stop]
            assert left.stop in inner if inner else starts_word[left.stop]


@settings(max_examples=60, deadline=None)
@given(documents_of_any_kind, st.integers(0, 2**31 - 1), st.sampled_from([5, 8, 20, 64]))
def test_pairs_of_any_documents(lengths, seed, seq_length):
    starts_word = np.random.default_rng(seed).random(sum(map(sum, lengths)) + 1) < 0.6
    segments = segment_pairs(block(lengths), starts_word, seq_length - 3, 0.3, tf.constant([seed, 0]))
    check_pairs(lengths, starts_word, seq_length, segments)


def test_pairs_in_order_and_swapped_by_halves():
    lengths = [np.random.default_rng(i).integers(1, 20, 40).tolist() for i in range(400)]
    documents = block(lengths)
    starts_word = tf.ones([tf.size(documents.tokens)], tf.bool)
    segments = segment_pairs(documents, starts_word, 64 - 3, 0.1, SEED)
    labels = segments.labels.numpy()
    assert len(labels) > 2000
    assert abs(labels.mean() - 0.5) < 3 * 0.5 / len(labels) ** 0.5
    # Without trimming every token would appear; what is cut off are ends of chunks that overshoot.
    shown = {t for a, b, _ in spans(segments) for t in (*a, *b)}
    untrimmed = segment_pairs(documents, starts_word, 100_000 - 3, 0.0, SEED)
    assert {t for a, b, _ in spans(untrimmed) for t in (*a, *b)} == set(range(tf.size(documents.tokens)))
    assert len(shown) > 0.85 * len(documents.tokens)


def test_division_is_uniform_over_sentence_ends_and_over_words():
    documents = block([[2, 2, 2, 2]] * 3000)
    starts_word = tf.ones([tf.size(documents.tokens)], tf.bool)
    segments = segment_pairs(documents, starts_word, 64 - 3, 0.0, SEED)
    first = [len(b if label else a) for a, b, label in spans(segments)]
    assert np.abs(np.bincount(first, minlength=7)[[2, 4, 6]] / 3000 - 1 / 3).max() < 0.03
    one_sentence = block([[6]] * 3000)
    starts_word = tf.constant([True, True, False, True, True, False] * 3000)
    segments = segment_pairs(one_sentence, starts_word, 64 - 3, 0.0, SEED)
    first = [len(b if label else a) for a, b, label in spans(segments)]
    assert np.abs(np.bincount(first, minlength=6) / 3000 - [0, 1 / 3, 0, 1 / 3, 1 / 3, 0]).max() < 0.03


def test_a_single_word_makes_no_pair():
    documents = block([[3], [1], [2]])
    starts_word = tf.constant([True, False, False, True, True, True])
    (pair,) = spans(segment_pairs(documents, starts_word, 16 - 3, 0.0, SEED))
    assert sorted(pair[:2], key=lambda side: side.start) == [range(4, 5), range(5, 6)]


def test_trimming_takes_from_front_and_back_by_a_coin():
    count = 4000
    zeros, twenty, ten = (tf.fill([count], n) for n in (0, 20, 10))
    starts = trim_starts((zeros, twenty), (twenty, twenty), (ten, twenty), SEED)
    at_front = starts[0].numpy()
    assert (starts[1].numpy() == 20).all()
    assert set(at_front) <= set(range(11))
    assert abs(at_front.mean() - 5) < 0.15
    assert abs(at_front.var() - 2.5) < 0.25


def test_single_segments_are_the_chunks():
    lengths = [[5, 6, 7], [30], [2]]
    segments = single_segments(block(lengths), None, 12 - 2, 0.0, SEED)
    shown = [
        range(s, s + n) for s, n in zip(segments.starts[0].numpy(), segments.lengths[0].numpy(), strict=True)
    ]
    assert [len(span) for span in shown] == [10, 7, 10, 2]
    for span, chunk in zip(shown, [range(0, 11), range(11, 18), range(18, 48), range(48, 50)], strict=True):
        assert chunk.start <= span.start
        assert span.stop <= chunk.stop


@settings(max_examples=60, deadline=None)
@given(documents_of_any_kind, st.integers(0, 2**31 - 1), st.sampled_from([5, 8, 20, 64]))
def test_random_next_pairs_of_any_documents(lengths, seed, seq_length):
    starts_word = np.random.default_rng(seed).random(sum(map(sum, lengths)) + 1) < 0.6
    segments = random_next_pairs(block(lengths), starts_word, seq_length - 3, 0.3, tf.constant([seed, 0]))
    borders = {0, *np.cumsum([length for document in lengths for length in document]).tolist()}
    document_ends = np.cumsum([sum(document) for document in lengths])
    several = sum(map(bool, lengths)) > 1
    for a, b, label in spans(segments):
        assert a and b
        assert len(a) + len(b) <= seq_length - 3
        of_a, of_b = (np.searchsorted(document_ends, part.start, side="right") for part in (a, b))
        assert of_b == np.searchsorted(document_ends, b.stop - 1, side="right")
        assert (of_a != of_b) == bool(label)
        assert several or not label
        if len(a) + len(b) < seq_length - 3:  # nothing was trimmed
            assert {a.start, b.stop} <= borders
            assert a.stop == b.start or {a.stop, b.start} <= borders
            assert label or a.stop == b.start


def test_random_next_pairs_by_halves_and_without_loss():
    lengths = [np.random.default_rng(i).integers(1, 20, 40).tolist() for i in range(300)]
    documents = block(lengths)
    starts_word = tf.ones([tf.size(documents.tokens)], tf.bool)
    found = spans(random_next_pairs(documents, starts_word, 64 - 3, 0.1, SEED))
    labels = np.array([label for _, _, label in found])
    assert len(labels) > 2000
    assert abs(labels.mean() - 0.5) < 3 * 0.5 / len(labels) ** 0.5
    starts = [b.start for _, b, label in found if label]
    assert len(set(starts)) > 0.8 * len(starts)  # from everywhere
    untrimmed = spans(random_next_pairs(documents, starts_word, 100_000 - 3, 0.0, SEED))
    shown = {t for a, b, label in untrimmed for t in (a if label else (*a, *b))}
    assert shown == set(range(tf.size(documents.tokens)))


def test_random_next_follows_a_whole_sentence():
    """One-sentence documents: whole when the next is random, divided at a word when it is the true one."""
    documents = block([[6]] * 2000)
    starts_word = tf.constant([True, True, False, True, True, False] * 2000)
    lengths = {0: [], 1: []}
    for a, b, label in spans(random_next_pairs(documents, starts_word, 64 - 3, 0.0, SEED)):
        lengths[int(label)].append((len(a), len(b)))
    assert set(lengths[1]) == {(6, 6)}
    assert set(lengths[0]) == {(1, 5), (3, 3), (4, 2)}
    assert 900 < len(lengths[1]) < 1100
