"""Batches of tokenised examples of similar length. The seed and the epoch's number decide the order.

The examples of an epoch are shuffled, sorted by the bucket of their length, and cut into batches of the same
number of rows. Then the batches are shuffled. So every example is in exactly one batch, only one batch of an
epoch is not full, and all hosts compute the same batches without communication.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.constants import EXAMPLE_NUMBERS, LABELS, WORD_IDS
from albert_tf.errors import check_whole
from albert_tf.tasks.examples import TokenizedExamples
from albert_tf.text.lines import without_autotuning
from albert_tf.text.packing import pack
from albert_tf.text.text_tokenizer import InputFormat


def bucket_lengths(seq_length: int) -> tuple[int, ...]:
    """Upper bounds of the buckets of lengths: powers of two, the middles between them, and `seq_length`.

    >>> bucket_lengths(100)
    (8, 16, 24, 32, 48, 64, 96, 100)
    """
    powers = [2**n for n in range(3, seq_length.bit_length())]
    lengths = sorted([*powers, *(3 * power for power in powers)])
    return (*(length for length in lengths if length < seq_length), seq_length)


def compiled_lengths(seq_length: int) -> tuple[int, ...]:
    """At most four lengths to pad batches to, for programs that are compiled once for each length.

    >>> compiled_lengths(100)
    (16, 32, 64, 100)
    """
    powers = [2**n for n in range(3, seq_length.bit_length()) if 2**n < seq_length]
    return (*powers[-3:], seq_length)


@tf.autograph.experimental.do_not_convert
def task_batches(
    rows: TokenizedExamples,
    seq_length: int,
    batch_size: int,
    lengths: Sequence[int] | None = None,
    seed: int = 0,
    shuffle: bool = True,
    repeat: bool = True,
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Batches of the encoder's inputs and the labels.

    The same arguments give the same batches, and a plain iterator can be saved with `tf.train.Checkpoint`.

    Args:
      rows: the examples.
      seq_length: longest sequence, in tokens; longer ones are trimmed.
      batch_size: rows of a batch (of this input pipeline), B.
      lengths: lengths to pad batches to, ascending to seq_length; each batch gets the next one that fits.
        None: `bucket_lengths`. They do not change which examples share a batch. With a single length all
        shapes are static.
      seed: seed of the order.
      shuffle: False keeps the order of the examples within each bucket, the shortest bucket first.
      repeat: False ends after one epoch.
      input_context: one of several input pipelines; each reads its rows of common batches.
    Returns:
      A dataset of dicts: the encoder's inputs, int32 [B, S] or [B, C, S]; the features of the examples, [B];
      `labels` [B, S] where tokens have labels; `rows` int32 [B], the number of each example. Rows that fill
      up the last batch, and missing choices, hold padding ids, with a mask of 0. The number and the labels of
      a row that fills up a batch are -1.
    """
    check_whole("seq_length", seq_length, rows.num_special_tokens + 1)
    ends = np.array(bucket_lengths(seq_length), np.int32)
    padded = ends if lengths is None else np.array(lengths, np.int32)[np.searchsorted(lengths, ends)]
    longest = np.minimum(rows.sequence_lengths.max(axis=1), seq_length)  # [N]
    part = input_context or tf.distribute.InputContext()
    make_batch = _create_batch_function(rows, padded)
    with tf.device("CPU:0"):  # where tf.data reads them
        buckets = tf.constant(np.searchsorted(ends, longest), tf.int32)
        row_seed = tf.constant([seed, 0])

        def epoch_batches(epoch: tf.Tensor) -> tf.data.Dataset:
            epoch_seed = tf.random.fold_in(row_seed, epoch) if shuffle else None
            plan = batch_plan(buckets, batch_size * part.num_input_pipelines, epoch_seed)
            return tf.data.Dataset.from_tensor_slices(plan)

        def batch(examples: tf.Tensor, bucket: tf.Tensor) -> dict[str, tf.Tensor]:
            first = part.input_pipeline_id * batch_size
            return make_batch(tf.ensure_shape(examples[first : first + batch_size], [batch_size]), bucket)

        epochs = tf.data.Dataset.range(tf.int64.max if repeat else 1).flat_map(epoch_batches)
        return without_autotuning(epochs.map(batch, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE))


def batches_per_epoch(rows: TokenizedExamples, global_batch_size: int) -> int:
    """The number of global batches in which every example comes once."""
    return -(-len(rows) // global_batch_size)


def batch_plan(buckets: tf.Tensor, batch_size: int, seed: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """The examples of each batch of an epoch.

    Args:
      buckets: the bucket of each example, int32 [N].
      batch_size: examples of a batch, B.
      seed: int [2]; None keeps the order of the examples within each bucket.
    Returns:
      The examples of each batch, int32 [ceil(N / B), B], -1 where the last batch is not full; and the bucket
      of the longest example of each batch, int32 [ceil(N / B)].
    """
    order = tf.range(tf.size(buckets))  # [N]
    if seed is not None:
        seed, batch_seed = tf.unstack(tf.random.split(seed))
        order = tf.random.experimental.stateless_shuffle(order, seed)
    order = tf.gather(order, tf.argsort(tf.gather(buckets, order), stable=True))
    missing = -tf.size(order) % batch_size
    longest = tf.gather(buckets, tf.concat([order[batch_size - 1 :: batch_size], order[-1:]], axis=0))
    order = tf.reshape(tf.pad(order, [[0, missing]], constant_values=-1), [-1, batch_size])  # [batches, B]
    longest = longest[: tf.shape(order)[0]]
    if seed is not None:
        places = tf.random.experimental.stateless_shuffle(tf.range(tf.size(longest)), batch_seed)
        order, longest = tf.gather(order, places), tf.gather(longest, places)
    return order, longest


def _create_batch_function(
    rows: TokenizedExamples, bucket_lengths: np.ndarray
) -> Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]:
    """A function from the examples of a batch, int32 [B] (-1: no example), and their bucket to the batch."""
    with tf.device("CPU:0"):
        tokens, starts, lengths = map(tf.constant, (rows.tokens, rows.starts, rows.lengths))
        features = {name: tf.constant(values) for name, values in rows.features.items()}
        token_labels = None if rows.token_labels is None else tf.constant(rows.token_labels)
    input_format = rows.vocabulary.input_format
    before, after = len(input_format.start), len(input_format.end)
    label_format = InputFormat(start=(-1,) * before, between=(), end=(-1,) * after, padding=-1)
    # With a single length a Python number, so that the shape is static.
    static_length = int(bucket_lengths[0]) if len(set(bucket_lengths)) == 1 else None

    def make_batch(examples: tf.Tensor, bucket: tf.Tensor) -> dict[str, tf.Tensor]:
        is_example, indices = examples >= 0, tf.maximum(examples, 0)  # [B]
        batch_starts, batch_lengths = tf.gather(starts, indices), tf.gather(lengths, indices)  # [B, (C,) G]
        length = static_length or tf.gather(bucket_lengths, bucket)
        positions = []  # of the tokens of each segment
        for n in range(batch_starts.shape[-1]):
            firsts, counts = (tf.reshape(values[..., n], [-1]) for values in (batch_starts, batch_lengths))
            limits = firsts + tf.cast(counts, tf.int64)
            positions.append(tf.ragged.range(firsts, limits, row_splits_dtype=tf.int64))

        def pack_segments(values: tf.Tensor, segment_format: InputFormat) -> dict[str, tf.Tensor]:
            segments = [place.with_values(tf.gather(values, place.values)) for place in positions]
            return pack(segments, length, segment_format)

        is_sequence = batch_starts[..., 0] >= 0
        is_sequence &= tf.reshape(is_example, [-1, *[1] * (batch_starts.shape.rank - 2)])
        shape = [*batch_starts.shape[:-1], static_length]
        batch = {}
        for name, tensor in pack_segments(tokens, input_format).items():
            tensor = tf.ensure_shape(tf.reshape(tensor, [*shape[:-1], length]), shape)
            filler = input_format.padding if name == WORD_IDS else 0
            batch[name] = _fill_where_not(is_sequence, tensor, filler)
        for name, values in features.items():
            filler = -1 if name == LABELS and values.dtype.is_integer else 0
            batch[name] = _fill_where_not(is_example, tf.gather(values, indices), filler)
        if token_labels is not None:
            labels = tf.ensure_shape(pack_segments(token_labels, label_format)[WORD_IDS], shape)
            batch[LABELS] = _fill_where_not(is_example, labels, -1)
        return batch | {EXAMPLE_NUMBERS: examples}

    return make_batch


def _fill_where_not(condition: tf.Tensor, values: tf.Tensor, filler: int) -> tf.Tensor:
    """The values [B, …] where the condition, bool [B] or [B, C], is true, and the filler elsewhere."""
    for _ in range(values.shape.rank - condition.shape.rank):
        condition = condition[..., tf.newaxis]
    return tf.where(condition, values, tf.cast(filler, values.dtype))
