import pytest
import tensorflow as tf

from albert_tf.data.tfrecords import naming_damaged_files, tfrecord_reader
from albert_tf.utils.errors import InputError


@pytest.fixture(params=["", " [1] 字"])
def damaged(request, tmp_path):
    """A file of 200 records, a byte flipped in one of the last."""
    path = tmp_path / f"shard{request.param}.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(200):
            file.write(b"record %d" % number)
    content = bytearray(path.read_bytes())
    content[-50] ^= 1
    path.write_bytes(content)
    return path


def test_damage_has_one_line_wherever_batches_are_read(damaged, two_replicas):
    dataset = tf.data.Dataset.from_tensors(str(damaged)).flat_map(tfrecord_reader([str(damaged)]))
    iterator = iter(dataset.map(tf.strings.length, tf.data.AUTOTUNE).batch(10).prefetch(2))

    @tf.function
    def step(iterator):
        total = tf.constant(0)
        for _ in tf.range(5):
            rows = two_replicas.experimental_local_results(two_replicas.run(tf.reduce_sum, (next(iterator),)))
            total += sum(rows)
        return total

    with pytest.raises(InputError) as error, naming_damaged_files():
        for _ in range(5):
            step(iterator)
    remedy = "make or copy it again, or leave it out"
    assert str(error.value) == f"{damaged} is damaged or cut off and cannot be read to its end: {remedy}"


def test_other_errors_stay_as_they_are():
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"), naming_damaged_files():
        tf.debugging.assert_positive(-1, "must be positive")
