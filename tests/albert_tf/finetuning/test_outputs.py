"""Outputs of batches against those of each example by itself."""

import tensorflow as tf

from albert_tf.finetuning import finetuned_model
from albert_tf.finetuning.finetuned_model import create_predict_fn, lengths_to_compile
from albert_tf.tasks.classification import text_rows
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.task import Examples
from tests.tiny import DOCUMENTS

SENTENCES = [sentence for document in DOCUMENTS for sentence in document]


def records(texts):
    return [TextRecord("f.csv", n + 2, str(n), text, None, None) for n, text in enumerate(texts)]


class Kind:
    """A kind whose predictions are what `keep` keeps."""

    seq_length = 48

    def __init__(self, keep):
        self.keep = keep

    def decode(self, examples, outputs):
        return outputs


def padded(ids, length):
    ids = tf.pad(ids, [[0, 0], [0, length - tf.shape(ids)[1]]], constant_values=7)
    return tf.ensure_shape(ids, [None, length])


def test_every_example_once_and_in_its_place(piece_tokenizer):
    rows = text_rows(records(SENTENCES), piece_tokenizer, {}, 128)
    seen, lengths = [], set()

    def model(batch, training):
        assert training is False
        return batch

    def keep(outputs, inputs):
        seen.append(inputs["input_word_ids"].shape)
        return {
            "ids": padded(outputs["input_word_ids"], 48),
            "length": tf.reduce_sum(inputs["input_mask"], axis=1),
        }

    for batch_size in (1, 10, 1000):
        predict = create_predict_fn(Kind(keep), model, batch_size)
        seen.clear()
        predict(Examples(SENTENCES, rows))
        assert len(seen) <= 2  # traced for the first length, and for all
        found = predict(Examples(SENTENCES, rows)).predictions
        assert len(seen) <= 2
        assert found["ids"].shape == (len(SENTENCES), 48)
        for number, sentence in enumerate(SENTENCES):
            tokens = piece_tokenizer(tf.constant([sentence])).to_list()[0][:46]
            length = len(tokens) + 2
            assert found["length"][number] == length
            lengths.add(length > 32)
            assert found["ids"][number, :length].tolist() == [2, *tokens, 3]
            assert set(found["ids"][number, length:]) <= {0, 7}
    assert lengths == {True, False}  # of more than one bucket


def test_few_examples_are_not_filled_up_to_a_batch(piece_tokenizer):
    """Whoever asks about one text does not wait for the answers to thirty-two."""
    rows = []

    def model(batch, training):
        return {"length": tf.reduce_sum(batch["input_mask"], axis=1)}

    def keep(outputs, inputs):
        tf.py_function(lambda mask: rows.append(mask.shape[0]), [inputs["input_mask"]], [])
        return outputs

    predict = create_predict_fn(Kind(keep), model, 32)
    for count in (1, 3, 32, 40):
        rows.clear()
        examples = Examples(
            SENTENCES[:count], text_rows(records(SENTENCES[:count]), piece_tokenizer, {}, 128)
        )
        assert len(predict(examples).predictions["length"]) == count
        assert rows == ([count] if count <= 32 else [32, 32])


def test_on_a_tpu_all_shapes_are_static(piece_tokenizer, monkeypatch):
    """Whatever is said of XLA: a TPU's programs are compiled in any case."""
    monkeypatch.setattr(finetuned_model, "device_kind", lambda strategy: "TPU")
    assert {lengths_to_compile(100, xla) for xla in (None, True, False)} == {(100,)}
    seen = []

    def keep(found, inputs):
        seen.append(inputs["input_mask"].shape.as_list())
        return {"length": tf.reduce_sum(found["input_mask"], axis=1)}

    predict = create_predict_fn(Kind(keep), lambda batch, training: batch, 10)
    lengths = predict(
        Examples(SENTENCES, text_rows(records(SENTENCES), piece_tokenizer, {}, 128))
    ).predictions
    assert seen == [[10, 48]]  # traced once
    assert len({length > 32 for length in lengths["length"]}) == 2
