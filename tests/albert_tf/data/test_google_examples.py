from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.data.tfrecords import encode_examples
from albert_tf.errors import InputError
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from albert_tf.text.vocabulary_training import train_vocabulary
from tests.albert_tf.commands import mistake, pretraining

SIZE = {"batch_size": 8, "seq_length": 48}
ALONE = {"sentence_objective": "none"}
NAMES = {
    **dict.fromkeys(("input_ids", "input_mask", "segment_ids", "token_boundary"), 48),
    **dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"), 8),
    "next_sentence_labels": 1,
}


@pytest.fixture(scope="module")
def batches(tiny_corpus, tiny_vocabulary):
    dataset = albert_tf.pretraining_dataset(tiny_corpus, tiny_vocabulary, repeat=False, **SIZE)
    return list(dataset.as_numpy_iterator())


@pytest.fixture(scope="module")
def stored(batches, tiny_vocabulary, tmp_path_factory):
    """The batches as a file of google-research/albert's schema, under one of its names."""
    path = str(tmp_path_factory.mktemp("google") / "examples.tf_record")
    vocabulary = SentencePieceVocabulary.from_file(tiny_vocabulary)
    with tf.io.TFRecordWriter(path) as file:
        for batch in batches:
            for record in encode_examples(batch, vocabulary):
                file.write(record)
    return path


def read(path, vocabulary, **options):
    dataset = albert_tf.pretraining_dataset(path, vocabulary, **{**SIZE, "repeat": False, **options})
    return list(dataset.as_numpy_iterator())


def test_schema(stored, tiny_vocabulary):
    pieces = SentencePieceVocabulary.from_file(tiny_vocabulary).pieces
    for record in tf.data.TFRecordDataset(stored).take(20).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        values = {
            name: list(f.float_list.value or f.int64_list.value) for name, f in sorted(features.items())
        }
        assert {name: len(value) for name, value in values.items()} == NAMES
        ids = np.array(values["input_ids"])
        count = int(sum(values["masked_lm_weights"]))
        ids[values["masked_lm_positions"][:count]] = values["masked_lm_ids"][:count]
        for token, boundary, real in zip(ids, values["token_boundary"], values["input_mask"], strict=True):
            starts = pieces[token].startswith("▁") or pieces[token] in ("[CLS]", "[SEP]")
            if starts or not real or pieces[token].isalpha():
                assert boundary == int(starts and real)


def test_read_again_as_written(stored, batches, tiny_vocabulary):
    found = read(stored, tiny_vocabulary, shuffle=False)
    for one, other in zip(found, batches, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert one[name].dtype == other[name].dtype
            assert (one[name] == other[name]).all(), name


def test_shuffled_by_epoch(stored, batches, tiny_vocabulary):
    count = sum(int(batch["input_mask"][:, 0].sum()) for batch in batches)
    two = next(iter(albert_tf.pretraining_dataset(stored, tiny_vocabulary, 2 * count, 48)))
    rows = list(map(tuple, two["input_word_ids"].numpy().tolist()))
    assert sorted(rows[:count]) == sorted(rows[count:])
    assert rows[:count] != rows[count:]


def test_what_does_not_fit(stored, tiny_corpus, tiny_vocabulary, tmp_path):
    train_vocabulary(tiny_corpus, tmp_path / "small.model", vocab_size=90)
    with tf.io.TFRecordWriter(str(tmp_path / "other.tfrecord")) as file:
        file.write(tf.train.Example().SerializeToString())
    with tf.io.TFRecordWriter(str(tmp_path / "empty.tfrecord")) as file:
        example = tf.train.Example()
        for name in NAMES:
            example.features.feature[name].int64_list.value.extend([])
        file.write(example.SerializeToString())
    (tmp_path / "damaged.tfrecord").write_bytes(Path(stored).read_bytes()[:50])
    for inputs, vocabulary, options, message in (
        (stored, tiny_vocabulary, {"seq_length": 64}, r"examples\.tf_record: .*48.*'seq_length': 64"),
        (stored, tiny_vocabulary, {"max_predictions": 20}, r"\.tf_record: .*8.*'max_predictions': 20"),
        (stored, tmp_path / "small.model", {}, r"examples\.tf_record: .*ids up to 1\d\d; .*90 pieces"),
        (tmp_path / "damaged.tfrecord", tiny_vocabulary, {}, r"damaged\.tfrecord is damaged or cut off"),
        (tmp_path / "other.tfrecord", tiny_vocabulary, {}, r"other\.tfrecord: its records have no input_ids"),
        (tmp_path / "empty.tfrecord", tiny_vocabulary, {}, r"empty\.tfrecord: .*'seq_length': 0, .*: 48"),
        (stored, tiny_vocabulary, {"masked_lm_prob": 0.0}, r"examples\.tf_record .*masked_lm_prob=0\.0"),
        (
            stored,
            tiny_vocabulary,
            {"input_format": "doc_sentences", **ALONE},
            r"examples.* input_format=doc_sentences",
        ),
        ([tiny_corpus, stored], tiny_vocabulary, {}, r"corpus\.txt holds text and .*\.tf_record holds"),
    ):
        with pytest.raises(InputError, match=message):
            read(inputs, vocabulary, **options)


@pytest.mark.parametrize(
    "words",
    [
        *(["--masked_lm_prob", "0.2"], ["--max_ngram", "1"], ["--short_seq_prob", "0"]),
        *(["--input_format", "sentence_pair"], ["--whole_word"]),
    ],
)
def test_settings_of_examples_that_are_finished_are_refused(words, stored, tiny_vocabulary, tmp_path, capsys):
    given = pretraining(stored, tiny_vocabulary, tmp_path / "run", seq_length=48)
    assert words[0].strip("-") in mistake(capsys, *given, *words)
    assert not (tmp_path / "run").exists()
