import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from albert_tf.data.dataset import pretraining_dataset
from albert_tf.data.documents import Documents
from albert_tf.data.example_builder import (
    add_separators,
    document_numbers,
    merge_documents,
    pack_across_documents,
    pack_sentences,
    sentence_pairs,
    split_long,
    whole_sentence_inputs,
)
from albert_tf.data.masking import ngram_spans, word_numbers
from tests.albert_tf.data.test_pretraining import original_ids
from tests.albert_tf.data.test_segments import block, documents_of_any_kind, spans

SEED = tf.constant([3, 4], tf.int64)
SEPARATOR = 9999


def divided_block(documents, max_tokens):
    """The documents, in which no token ends a sentence."""
    return split_long(documents, max_tokens, np.zeros(SEPARATOR, bool), np.ones(SEPARATOR, bool))


def joined_block(documents, max_tokens):
    return merge_documents(add_separators(divided_block(documents, max_tokens), SEPARATOR))


def packed_by_hand(documents, max_tokens, *, over_ends):
    """Inputs of whole sentences, one after the other; separators stand between documents alone."""
    inputs, current = [], []
    for document in documents:
        if not over_ends or len(current) + 1 > max_tokens:
            inputs, current = [*inputs, current], []
        is_first = True
        for sentence in document:
            for begin in range(0, len(sentence), max_tokens):
                piece = sentence[begin : begin + max_tokens]
                between = [SEPARATOR] if is_first and current else []
                if len(current) + len(between) + len(piece) > max_tokens:
                    inputs, current, between = [*inputs, current], [], []
                current = [*current, *between, *piece]
                is_first = False
    return [found for found in [*inputs, current] if found]


def texts(lengths):
    """Documents of sentences of so many tokens, as lists of the numbers of the tokens."""
    numbers = iter(range(sum(map(sum, lengths))))
    return [[[next(numbers) for _ in range(length)] for length in document] for document in lengths]


def packed_inputs(documents, max_tokens):
    return inputs_of(pack_sentences(documents, SEPARATOR, max_tokens))


def inputs_of(documents):
    segments = whole_sentence_inputs(documents, SEPARATOR)
    assert not segments.labels.numpy().any()
    starts, lengths = segments.starts[0].numpy(), segments.lengths[0].numpy()
    return [documents.tokens.numpy()[s : s + n].tolist() for s, n in zip(starts, lengths, strict=True)]


def test_sentences_of_a_paragraph():
    """Of a line of 70 tokens those end with 19 before the word 20, and with 49, but not within a word."""
    ends, words = np.zeros(200, bool), np.ones(200, bool)
    ends[[3, 19, 29, 49, 79]], words[30] = True, False
    found = add_separators(split_long(block([[10, 70], [32]]), 1000, ends, words), SEPARATOR)
    assert found.sentence_lengths.numpy().tolist() == [11, 10, 30, 30, 33]
    assert found.num_sentences.numpy().tolist() == [4, 1]


@settings(max_examples=60, deadline=None)
@given(documents_of_any_kind, st.sampled_from([3, 8, 20, 64]), st.booleans())
def test_packed_sentences_of_any_documents(lengths, max_tokens, over_ends):
    documents = (joined_block if over_ends else divided_block)(block(lengths), max_tokens)
    found = packed_inputs(documents, max_tokens)
    assert found == packed_by_hand(texts(lengths), max_tokens, over_ends=over_ends)
    assert [token for row in found for token in row if token != SEPARATOR] == [*range(sum(map(sum, lengths)))]


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.lists(documents_of_any_kind, max_size=5), st.sampled_from([3, 20, 64]))
def test_a_block_begins_with_what_the_last_one_left(many, max_tokens):
    everything = [document for lengths in many for document in lengths]
    blocks, first = [], 0
    for lengths in many:
        tokens = block(lengths)
        blocks.append(joined_block(tokens._replace(tokens=tokens.tokens + first), max_tokens))
        first += sum(map(sum, lengths))

    def generate():
        yield from blocks

    spec = Documents(*(tf.TensorSpec([None], tf.int32) for _ in range(3)))
    source = tf.data.Dataset.from_generator(generate, output_signature=spec)
    carried = list(pack_across_documents(source, SEPARATOR, max_tokens))
    assert len(carried) == len(blocks) + 1
    found = [row for documents in carried for row in inputs_of(documents)]
    assert found == packed_by_hand(texts(everything), max_tokens, over_ends=True)


def test_documents_are_numbered_and_no_separator_is_masked():
    word_ids = tf.constant([[8, 5, 6, 9, 7, 9, 5, 9, 0]])
    segments = tf.constant([[0, 1, 1, 1, 1, 1, 1, 0, 0]])
    assert document_numbers(word_ids, segments, 9).numpy().tolist() == [[0, 1, 1, 0, 3, 0, 4, 0, 0]]


def test_no_tile_spans_two_documents():
    segments = tf.tile(tf.constant([[0, 1, 1, 1, 0, 3, 3, 0, 4, 4, 4, 0]]), [500, 1])
    words, before = word_numbers(tf.zeros_like(segments), segments, tf.constant([True]), True)
    found = ngram_spans(words, before, segments, 3, SEED).numpy()
    of_first, of_second, of_third = found[:, 1:4], found[:, 5:7], found[:, 8:11]
    assert (of_first.max(1) < of_second.min(1)).all()
    assert (of_second.max(1) < of_third.min(1)).all()
    assert (of_first[:, 0] == of_first[:, 2]).any()  # and there are some of three words


def pairs_of(lengths, objective, max_tokens=1000, seed=SEED):
    return spans(sentence_pairs(block(lengths), None, max_tokens, 0.0, seed, objective=objective))


def test_sentence_pairs_without_an_objective_are_consecutive_sentences():
    found = pairs_of([[2, 3, 4], [5], [], [1, 1, 1, 1]], "none")
    pairs = [(0, 2, 5), (14, 15, 16), (16, 17, 18)]
    assert found == [(range(a, b), range(b, c), 0) for a, b, c in pairs]


@settings(max_examples=60, deadline=None)
@given(documents_of_any_kind, st.integers(0, 2**31 - 1), st.sampled_from(["sop", "nsp"]))
def test_sentence_pairs_of_any_documents(lengths, seed, objective):
    borders = np.append(0, np.cumsum([length for document in lengths for length in document])).tolist()
    sentences = {range(*ends) for ends in itertools.pairwise(borders)}
    document_ends = np.cumsum([sum(document) for document in lengths])
    found = pairs_of(lengths, objective, seed=tf.constant([seed, 0]))
    for a, b, label in found:
        assert {a, b} <= sentences
        of_a, of_b = (np.searchsorted(document_ends, part.start, side="right") for part in (a, b))
        if objective == "nsp":
            assert (of_a != of_b) == bool(label)
            assert label or a.stop == b.start
        else:
            assert of_a == of_b
            assert b.stop == a.start if label else a.stop == b.start
    for a, b, _ in pairs_of(lengths, objective, 7, tf.constant([seed, 0])):
        assert a
        assert b
        assert len(a) + len(b) <= 7


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_half_of_the_sentence_pairs_are_true(objective):
    lengths = [np.random.default_rng(i).integers(1, 20, 2 + i % 9).tolist() for i in range(1500)]
    labels = np.array([label for *_, label in pairs_of(lengths, objective)])
    assert len(labels) > 3000
    assert abs(labels.mean() - 0.5) < 3 * 0.5 / len(labels) ** 0.5


FORMATS = ["full_sentences", "doc_sentences", "sentence_pair"]


@pytest.mark.slow
@pytest.mark.parametrize("input_format", FORMATS)
def test_batches(input_format, tiny_corpus, tiny_vocabulary, tiny_tokenizer, tmp_path):
    """One epoch has every token once (but of pairs), and a resume over its end goes on exactly."""
    options = {"sentence_objective": "none", "input_format": input_format, "batch_size": 4, "seq_length": 32}
    once = pretraining_dataset(tiny_corpus, tiny_vocabulary, **options, repeat=False, shuffle=False)
    shown = []
    for batch in once.as_numpy_iterator():
        ids = original_ids(batch)
        assert not np.isin(batch["masked_lm_ids"], (2, 3)).any()
        assert (ids[batch["input_mask"] == 0] == 0).all()
        assert (ids[:, 0] == np.where(batch["input_mask"][:, 0], 2, 0)).all()
        if input_format != "sentence_pair":
            assert not batch["input_type_ids"].any()
        shown += ids[ids > 4].tolist()
    lines = [line for line in tiny_corpus.read_text().splitlines() if line.strip()]
    text = [token for row in tiny_tokenizer(lines).to_list() for token in row if token > 4]
    if input_format == "sentence_pair":
        assert set(shown) <= set(text)
    else:
        assert shown == text

    endless = pretraining_dataset(tiny_corpus, tiny_vocabulary, **options)
    iterator = iter(endless)
    first = [next(iterator) for _ in range(40)]  # over the end of an epoch
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "iterator"))
    following = [next(iterator) for _ in range(4)]
    other = iter(endless)
    tf.train.Checkpoint(iterator=other).read(path)
    for a, b in zip(following, (next(other) for _ in range(4)), strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, a, b)
    assert len({row.tobytes() for batch in first for row in batch["input_word_ids"].numpy()}) > 100


@pytest.mark.parametrize("input_format", ["full_sentences", "doc_sentences"])
def test_packed_sentences_have_no_sentence_objective(input_format, tiny_corpus, tiny_vocabulary):
    with pytest.raises(ValueError, match="sentence_objective=none"):
        pretraining_dataset(tiny_corpus, tiny_vocabulary, input_format=input_format)


@pytest.mark.parametrize("name", ["gutenberg", "imdb_unlabelled"])
@pytest.mark.slow
def test_full_sentences_fill_their_inputs(name, shared, published_vocabulary):
    """Of sentences a line, and of paragraphs a line."""
    batches = pretraining_dataset(
        shared / f"data/corpus/{name}.txt",
        published_vocabulary,
        sentence_objective="none",
        input_format="full_sentences",
        seq_length=512,
        seed=1,
    )
    masks = np.concatenate([batch["input_mask"] for batch in batches.take(20).as_numpy_iterator()])
    assert masks.mean() > 0.95
