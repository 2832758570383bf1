import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.models import MODELS
from albert_tf.models.compiled import ROWS_AT_ONCE, in_blocks
from albert_tf.tasks import KINDS
from albert_tf.tasks.serving import without_padding


def test_every_model_of_a_run_but_the_encoder_has_a_kind():
    assert {kind.model for kind in KINDS.values()} == MODELS.keys() - {"encoder"}


def test_columns_of_padding_alone_are_left_out():
    mask = tf.constant([[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]])
    assert without_padding({"input_mask": mask})["input_mask"].shape == [2, 3]
    assert without_padding({"input_mask": mask}, least=5)["input_mask"].shape == [2, 5]
    assert without_padding({"input_mask": mask[:0]}, least=2)["input_mask"].shape == [0, 2]


def test_blocks_are_small_and_all_rows_are_answered():
    sizes = []

    def double(inputs):
        sizes.append(tf.shape(inputs["input_mask"])[0].numpy())
        return 2 * inputs["input_mask"], tf.reduce_sum(inputs["input_mask"], axis=1)

    for rows in (0, 1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 3 * ROWS_AT_ONCE - 1):
        sizes.clear()
        mask = np.arange(rows * 3, dtype=np.int32).reshape(rows, 3)
        doubled, sums = in_blocks(double, {"input_mask": tf.constant(mask)}, (tf.int32, tf.int32))
        np.testing.assert_array_equal(doubled, 2 * mask)
        np.testing.assert_array_equal(sums, mask.sum(axis=1))
        assert max(sizes) <= ROWS_AT_ONCE
        assert sum(sizes) < rows + len(sizes)
