import numpy as np
import pytest
import tensorflow as tf

from albert_tf.constants import ENCODER_INPUTS
from albert_tf.errors import InputError
from albert_tf.tasks.batches import batch_plan, batches_per_epoch, bucket_lengths, task_batches
from albert_tf.tasks.classification import Classification
from albert_tf.tasks.examples import TextRecord
from albert_tf.text.packing import pack
from tests.tiny import SENTENCES

S = 48


def records(pairs=False):
    return [
        TextRecord("f.csv", n + 2, str(n), text[: n % 7 * 9 + 3], text[::2] if pairs else None, str(n % 2))
        for n, text in enumerate(SENTENCES)
    ]


def text_rows(records, tokenizer):
    return Classification({"labels": ("0", "1")}).encode(records, tokenizer, True).rows


@pytest.fixture(scope="module")
def rows(tiny_tokenizer):
    return text_rows(records(), tiny_tokenizer.tokenize)


def numpy_batches(dataset):
    return [{name: tensor.numpy() for name, tensor in batch.items()} for batch in dataset]


@pytest.mark.parametrize(("pairs", "shuffle"), [(False, True), (True, False)])
def test_every_example_once_as_pack_packs_it(tiny_tokenizer, pairs, shuffle):
    asked = records(pairs)
    rows = text_rows(asked, tiny_tokenizer.tokenize)
    batches = numpy_batches(task_batches(rows, S, 8, shuffle=shuffle, repeat=False))
    assert len(batches) == batches_per_epoch(rows, 8)
    seen = np.concatenate([batch["rows"] for batch in batches])
    assert sorted(seen[seen >= 0]) == list(range(len(asked)))
    columns = [[r.text for r in asked], [r.text_pair for r in asked]][: 1 + pairs]
    expected = pack([tiny_tokenizer(column) for column in columns], S)
    lengths = tf.reduce_sum(expected["input_mask"], axis=1).numpy()
    for batch in batches:
        numbers, length = batch["rows"], batch["input_mask"].shape[1]
        assert length in (8, 16, 24, 32, 48)
        real = numbers >= 0
        assert length == min(b for b in (8, 16, 24, 32, 48) if b >= lengths[numbers[real]].max())
        for name in ENCODER_INPUTS:
            assert batch[name].shape == (8, length)
            np.testing.assert_array_equal(batch[name][real], expected[name].numpy()[numbers[real], :length])
            assert not batch[name][~real].any()
        assert batch["labels"][real].tolist() == (numbers[real] % 2).tolist()
        assert set(batch["labels"][~real]) <= {-1}


def test_epochs_differ_and_seeds_repeat(rows):
    def order(count, **arguments):
        return [b["rows"].numpy().tolist() for b in task_batches(rows, S, 8, **arguments).take(count)]

    each = batches_per_epoch(rows, 8)
    two = order(2 * each, seed=3)
    assert two == order(2 * each, seed=3)
    assert two[:each] != two[each:]
    assert two != order(2 * each, seed=4)
    for epoch in (two[:each], two[each:]):
        assert sorted(n for batch in epoch for n in batch if n >= 0) == list(range(len(rows)))
    lengths = [b["input_mask"].shape[1] for b in task_batches(rows, S, 4, repeat=False)]
    assert lengths not in (sorted(lengths), sorted(lengths, reverse=True))
    assert order(each, shuffle=False) == order(each, shuffle=False, seed=8)


def test_pipelines_divide_common_batches(rows):
    whole = numpy_batches(task_batches(rows, S, 6, repeat=False))
    parts = [
        numpy_batches(
            task_batches(rows, S, 2, repeat=False, input_context=tf.distribute.InputContext(3, number, 6))
        )
        for number in range(3)
    ]
    assert [len(part) for part in parts] == [len(whole)] * 3
    for batch, *others in zip(whole, *parts, strict=True):
        for name, values in batch.items():
            np.testing.assert_array_equal(values, np.concatenate([other[name] for other in others]))


def test_an_iterator_goes_on_where_it_was_saved(rows, tmp_path):
    dataset = task_batches(rows, S, 8, seed=5)
    iterator = iter(dataset)
    for _ in range(batches_per_epoch(rows, 8) + 3):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(tmp_path / "ckpt")
    expected = [next(iterator) for _ in range(12)]
    again = iter(task_batches(rows, S, 8, seed=5))
    tf.train.Checkpoint(iterator=again).restore(path).assert_consumed()
    for batch in expected:
        tf.nest.map_structure(np.testing.assert_array_equal, next(again), batch)


def test_shapes(rows):
    assert bucket_lengths(400) == (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 400)
    assert (bucket_lengths(10), bucket_lengths(8)) == ((8, 10), (8,))
    one = task_batches(rows, S, 8, lengths=[S])
    assert {name: spec.shape.as_list() for name, spec in one.element_spec.items()} == {
        **{name: [8, S] for name in ENCODER_INPUTS},
        "labels": [8],
        "rows": [8],
    }
    assert task_batches(rows, S, 8).element_spec["input_mask"].shape.as_list() == [8, None]


def test_no_autotuner_delays_the_end(rows):
    assert task_batches(rows, S, 8, repeat=False).options().autotune.enabled is False


def test_plans_by_hand():
    buckets = tf.constant([1, 0, 2, 0, 1])
    order, longest = batch_plan(buckets, 2, None)
    assert (order.numpy().tolist(), longest.numpy().tolist()) == ([[1, 3], [0, 4], [2, -1]], [0, 1, 2])
    order, longest = batch_plan(buckets, 5, None)
    assert (order.numpy().tolist(), longest.numpy().tolist()) == ([[1, 3, 0, 4, 2]], [2])
    order, longest = batch_plan(buckets, 9, tf.constant([1, 2]))
    assert (sorted(order.numpy()[0]), longest.numpy().tolist()) == ([-1] * 4 + [0, 1, 2, 3, 4], [2])
    first = [int(batch_plan(tf.zeros(50, tf.int32), 50, tf.constant([0, n]))[0][0, 0]) for n in range(60)]
    assert len(set(first)) > 25


def test_no_room_for_special_tokens(rows):
    with pytest.raises(InputError, match="seq_length=2"):
        task_batches(rows, 2, 8)
