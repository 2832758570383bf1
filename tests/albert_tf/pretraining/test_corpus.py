"""What is trained on and what is evaluated on."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.data.documents import CorpusSplit
from albert_tf.errors import InputError
from albert_tf.pretraining import corpus as corpus_module
from albert_tf.pretraining.corpus import Corpus
from tests.albert_tf.pretraining.runs import corpus_of, evaluation_batches

HUNDREDTH = CorpusSplit("documents", 0.0, 0.01, "1%")
HELD_OUT = {"of": "documents", "begin": 0.0, "end": 0.25, "what": "2 of 8 documents"}  # in recipe.json


@pytest.fixture
def read(monkeypatch, tmp_path):
    """What is read of which files, of those in a folder, as a list that grows."""
    calls = []
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt", "c.txt", "other.txt"):
        (tmp_path / name).touch()

    def record(inputs, *, share=None, cache=False, **_):
        calls.append((list(inputs), share, cache))
        return tf.data.Dataset.from_tensors({"masked_lm_weights": [[1.0]]})

    monkeypatch.setattr(corpus_module, "pretraining_dataset", record)
    return calls


TRAIN = "train-00000-of-00001.tfrecord"
EVAL, OTHER = ("eval-00000-of-00002.tfrecord", "eval-00001-of-00002.tfrecord")


def folder_of_prepare(path, *shards, empty=None):
    path.mkdir()
    stats = {"shards": {shard: {} for shard in shards}, "settings": {}, "vocabulary": "", "lowercase": True}
    (path / "stats.json").write_text(json.dumps({**stats, "strip_accents": True}))
    for shard in shards:
        (path / shard).write_bytes(b"" if shard == empty else b"a document")
    return str(path)


def made(settings, recipe=None):
    """What a run with this recipe.json holds out, after it has asked for its batches."""
    corpus = corpus_of(settings, recipe)
    corpus.training_batches(settings.recipe, 0)
    corpus.evaluation_batches(settings.recipe.examples, 4)
    return corpus.held_out


def test_what_prepare_holds_out_is_evaluated_on_and_not_trained_on(settings, tmp_path, read):
    folder = folder_of_prepare(tmp_path / "a", TRAIN, EVAL, OTHER)
    made(settings(train=[folder], eval=None))
    evaluated = ([f"{folder}/{EVAL}", f"{folder}/{OTHER}"], None, False)
    assert read == [evaluated, ([folder], None, False), evaluated]  # first for its masks


def test_a_share_is_held_out_of_other_text(settings, tmp_path, read, monkeypatch):
    """Also where `prepare` was to hold out documents and none of a small corpus came into that share."""
    folder = folder_of_prepare(tmp_path / "a", TRAIN, EVAL, empty=EVAL)
    monkeypatch.setattr(corpus_module, "held_out_candidates", lambda _: iter([HUNDREDTH]))
    monkeypatch.setattr(corpus_module, "open_documents", lambda *_, **__: None)
    monkeypatch.setattr(corpus_module, "evaluation_split", lambda share, _: share.limit_size(0.001))
    made(settings(train=[folder, "b.txt"], eval=None))
    rest, evaluated = CorpusSplit("documents", 0.01, 1.0), CorpusSplit("documents", 0.0, 0.001)
    assert read[2:] == [([folder, "b.txt"], rest, False), ([folder, "b.txt"], evaluated, True)]


def test_the_first_share_that_leaves_examples_on_both_sides(settings, monkeypatch):
    def examples(inputs, *, share, **_):
        if share.begin == 0.75 or share.end == 0.25:
            raise corpus_module.NoExamplesError("no text")
        return tf.data.Dataset.from_tensors({"masked_lm_weights": [[1.0]]})

    shares = [CorpusSplit("each document", begin, 1.0, f"{begin}") for begin in (0.75, 0.25, 0.5, 0.1)]
    monkeypatch.setattr(corpus_module, "pretraining_dataset", examples)
    monkeypatch.setattr(corpus_module, "held_out_candidates", lambda _: iter(shares))
    assert made(settings(eval=None)) == shares[2]
    shares[2:] = []
    with pytest.raises(InputError, match=r"corpus\.txt"):
        made(settings(eval=None))


@pytest.mark.parametrize("now", [None, ["other.txt"]])
def test_a_resumed_run_holds_out_what_it_did(settings, read, now):
    """Whatever it is evaluated on now: what was held out would else be trained on."""
    held_out = CorpusSplit("documents", 0.0, 0.25, "2 of 8 documents")
    before = corpus_of(settings(eval=now), {"eval": None, "held_out": HELD_OUT})
    assert before.held_out == held_out and before.record()["held_out"] == HELD_OUT
    assert made(settings(eval=now), {"eval": None, "held_out": HELD_OUT}) == held_out
    (_, trained, _), (inputs, evaluated, cached) = read[-2:]  # before: what is evaluated on has masks
    assert trained == CorpusSplit("documents", 0.25, 1.0)
    assert (evaluated, cached) == ((None, False) if now else (held_out._replace(what=""), True))
    assert inputs == (now or settings().train)


def test_a_run_that_holds_nothing_out_needs_other_text(settings, read, tmp_path):
    recipe = {"eval": ["a b.txt"], "held_out": None}
    assert made(settings(eval=["c.txt"]), recipe) is None
    assert [share for _, share, _ in read] == [None, None, None]
    with pytest.raises(InputError, match=r"`eval` 'a b\.txt'"):
        made(settings(eval=None), recipe)
    folder = folder_of_prepare(tmp_path / "a", TRAIN, EVAL)
    assert made(settings(train=[folder], eval=None), recipe) is None


def test_evaluation_examples_are_the_same_whatever_the_seed(settings):
    batches = [evaluation_batches(settings(seed=seed)) for seed in (0, 5)]
    for one, other in zip(*batches, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_files_that_are_trained_and_evaluated_on_are_found_by_their_content(tmp_path):
    contents = {"a.txt": "one", "b.txt": "two", "copy of b.txt": "two", "c.txt": "three", "no.txt": ""}
    a, b, copy, c, empty = (str(tmp_path / name) for name in contents)
    for name, text in contents.items():
        (tmp_path / name).write_text(text)
    for evaluated, expected in (([c, copy, empty], ["copy of b.txt"]), ([c], []), (None, [])):
        corpus = Corpus([a, b, empty], evaluated, {})
        assert Corpus.shared_files(corpus.record()) == expected
