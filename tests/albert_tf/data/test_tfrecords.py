import errno
import re

import pytest
import tensorflow as tf

from albert_tf.data.tfrecords import first_example, naming_damaged_files, tfrecord_reader
from albert_tf.errors import InputError


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


def test_a_file_that_cannot_be_opened_ends_the_pipeline(damaged):
    """It is not tried for ever; a folder stands for a file that may not be read."""
    read = tfrecord_reader([str(damaged)])
    damaged.unlink()
    for number, make in ((errno.ENOENT, lambda: None), (errno.EISDIR, damaged.mkdir)):
        make()
        dataset = tf.data.Dataset.from_tensors(str(damaged)).interleave(read, num_parallel_calls=2)
        with pytest.raises(OSError) as caught, naming_damaged_files():
            list(dataset.map(tf.strings.length, tf.data.AUTOTUNE).prefetch(2))
        assert (caught.value.errno, caught.value.filename) == (number, str(damaged))
        with pytest.raises(OSError) as caught:
            first_example([str(damaged)])
        assert (caught.value.errno, caught.value.filename) == (number, str(damaged))


def test_a_file_that_is_cut_off_between_two_records_is_named(damaged):
    read = tfrecord_reader([str(damaged)])
    content = damaged.read_bytes()
    damaged.write_bytes(content[: 16 + len("record 0")])
    with pytest.raises(InputError, match=re.escape(str(damaged))), naming_damaged_files():
        list(tf.data.Dataset.from_tensors(str(damaged)).flat_map(read))


def test_other_errors_stay_as_they_are():
    with pytest.raises(tf.errors.InvalidArgumentError, match="must be positive"), naming_damaged_files():
        tf.debugging.assert_positive(-1, "must be positive")
