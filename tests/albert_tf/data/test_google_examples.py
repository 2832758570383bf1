from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.data.google_examples import encode_examples
from albert_tf.tokenizers.vocabulary import Vocabulary
from albert_tf.utils.errors import InputError
from tests.tiny import CORPUS

SIZE = {"batch_size": 8, "seq_length": 48}
NAMES = {
    "input_ids": 48,
    "input_mask": 48,
    "segment_ids": 48,
    "token_boundary": 48,
    "masked_lm_positions": 8,
    "masked_lm_ids": 8,
    "masked_lm_weights": 8,
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
    vocabulary = Vocabulary.from_file(tiny_vocabulary)
    with tf.io.TFRecordWriter(path) as file:
        for batch in batches:
            for record in encode_examples(batch, vocabulary, "sentence_order_labels"):
                file.write(record)
    return path


def read(path, vocabulary, **options):
    dataset = albert_tf.pretraining_dataset(path, vocabulary, **{**SIZE, "repeat": False, **options})
    return list(dataset.as_numpy_iterator())


def test_schema(stored, tiny_vocabulary):
    pieces = Vocabulary.from_file(tiny_vocabulary).pieces
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
    (two,) = albert_tf.pretraining_dataset(stored, tiny_vocabulary, **{**SIZE, "batch_size": 2 * count}).take(
        1
    )
    rows = list(map(tuple, two["input_word_ids"].numpy().tolist()))
    assert sorted(rows[:count]) == sorted(rows[count:])
    assert rows[:count] != rows[count:]


def damaged(stored, tmp_path, change):
    content = bytearray(Path(stored).read_bytes())
    path = tmp_path / "damaged.tfrecord"
    path.write_bytes(change(content))
    return path


def flip(content, position):
    content[position] ^= 1
    return content


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content[:-1],
        lambda content: flip(content, len(content) // 2),
        lambda content: flip(content, -10),
    ],
)
def test_damage_is_reported_with_the_file(stored, tiny_vocabulary, tmp_path, change):
    path = damaged(stored, tmp_path, change)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"damaged\.tfrecord.*is damaged or cut off"):
        read(path, tiny_vocabulary)


def test_what_does_not_fit(stored, tiny_corpus, tiny_vocabulary, tmp_path):
    from albert_tf.tokenizers import train_vocabulary

    train_vocabulary(tiny_corpus, tmp_path / "small.model", vocab_size=90)
    for vocabulary, options, message in (
        (tiny_vocabulary, {"seq_length": 64}, "'seq_length': 48.* asked for are .*'seq_length': 64"),
        (
            tiny_vocabulary,
            {"max_predictions": 20},
            "'max_predictions': 8.* asked for .*'max_predictions': 20",
        ),
        (tmp_path / "small.model", {}, r"ids up to 1\d\d; .*90 pieces"),
    ):
        with pytest.raises(InputError, match=rf"examples\.tf_record: .*{message}"):
            read(stored, vocabulary, **options)
    with pytest.raises(InputError, match=r"damaged\.tfrecord is damaged or cut off"):
        read(damaged(stored, tmp_path, lambda content: flip(content, 50)), tiny_vocabulary)
    with tf.io.TFRecordWriter(str(tmp_path / "other.tfrecord")) as file:
        file.write(tf.train.Example().SerializeToString())
    with pytest.raises(InputError, match=r"other\.tfrecord: its records have no input_ids"):
        read(tmp_path / "other.tfrecord", tiny_vocabulary)
    with pytest.raises(InputError, match=r"corpus\.txt holds text and .*examples\.tf_record holds examples"):
        read([tiny_corpus, stored], tiny_vocabulary)


def test_text_that_is_called_otherwise(tiny_vocabulary, tmp_path):
    (tmp_path / "tfrecord.txt").write_text(CORPUS)
    batch, *_ = read(tmp_path / "tfrecord.txt", tiny_vocabulary, sentence_objective="nsp")
    assert "next_sentence_labels" in batch
