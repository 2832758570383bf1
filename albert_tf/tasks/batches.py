"""Tokenised examples to batches of similar length: every epoch is a permutation of the seed and its number.

An epoch's examples, in random order, are sorted by the bucket of their length and cut into batches of the
same number of rows, and the batches come in random order. So only one batch of an epoch is not full, every
example is in exactly one, and all hosts agree on all of it without a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.constants import LABELS, ROWS, WORD_IDS
from albert_tf.tasks.examples import TokenizedExamples, check_length
from albert_tf.text.packing import pack
from albert_tf.text.text_tokenizer import InputFormat

MakeBatch = Callable[[tf.Tensor, tf.Tensor], dict[str, tf.Tensor]]

SHORTEST_BUCKET = 8


def bucket_lengths(seq_length: int) -> tuple[int, ...]:
    """SHORTEST_BUCKET, from twice of it on the powers of two and their middles, and the longest sequence.

    >>> bucket_lengths(100)
    (8, 16, 24, 32, 48, 64, 96, 100)
    """
    lengths = [SHORTEST_BUCKET]
    while lengths[-1] < seq_length:
        power = 2 ** (lengths[-1].bit_length() - 1)
        lengths.append(lengths[-1] + max(SHORTEST_BUCKET, power // 2))
    return (*(length for length in lengths if length < seq_length), seq_length)


def few_lengths(seq_length: int) -> tuple[int, ...]:
    """Four lengths at most that batches are padded to where each costs a compilation.

    >>> few_lengths(100)
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
    """Batches of the encoder's inputs and of what is to be learnt.

    The same arguments give the same batches, and a plain iterator can be saved with `tf.train.Checkpoint`.

    Args:
      rows: the examples.
      seq_length: longest sequence; what is longer is trimmed.
      batch_size: rows of a batch (of this input pipeline), B.
      lengths: that batches are padded to the next of, ascending to seq_length; None: `bucket_lengths`. The
        examples of each batch are the same in any case. With a single length all shapes are static.
      seed: of the order.
      shuffle: False takes the examples of each length in their own order, the shortest first.
      repeat: False ends after one epoch.
      input_context: one of several input pipelines; each reads its rows of common batches.
    Returns:
      Dicts of the encoder's inputs, int32 [B, S] or [B, C, S]; the features of the examples, [B]; `labels`
      [B, S] where tokens have labels; `rows` int32 [B], the number of each example. What is missing in the
      one batch that is not full, or a choice that an example has not, are rows of zeros, also in their mask;
      the number and labels of an example that is missing are -1.
    """
    check_length("seq_length", seq_length, rows.num_special_tokens + 1)
    ends = np.array(bucket_lengths(seq_length), np.int32)
    padded = ends if lengths is None else np.array(lengths, np.int32)[np.searchsorted(lengths, ends)]
    longest = np.minimum(rows.sequence_lengths.max(axis=1), seq_length)  # [N]
    part = input_context or tf.distribute.InputContext()
    make = _batch_maker(rows, padded)
    with tf.device("CPU:0"):  # where tf.data reads them
        buckets = tf.constant(np.searchsorted(ends, longest), tf.int32)
        row_seed = tf.constant([seed, 0])

        def epoch_batches(epoch: tf.Tensor) -> tf.data.Dataset:
            epoch_seed = tf.random.fold_in(row_seed, epoch) if shuffle else None
            plan = batch_plan(buckets, batch_size * part.num_input_pipelines, epoch_seed)
            return tf.data.Dataset.from_tensor_slices(plan)

        def batch(examples: tf.Tensor, bucket: tf.Tensor) -> dict[str, tf.Tensor]:
            first = part.input_pipeline_id * batch_size
            return make(tf.ensure_shape(examples[first : first + batch_size], [batch_size]), bucket)

        epochs = tf.data.Dataset.range(tf.int64.max if repeat else 1).flat_map(epoch_batches)
        return epochs.map(batch, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def batches_per_epoch(rows: TokenizedExamples, global_batch_size: int) -> int:
    """The number of batches, of all pipelines together, that show every example once."""
    return -(-len(rows) // global_batch_size)


def batch_plan(buckets: tf.Tensor, batch_size: int, seed: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
    """The batches of an epoch, of examples in buckets, int32 [N]; without a seed, int [2], in their order.

    They are the examples of each batch, int32 [ceil(N / B), B], the last ones -1 where too few are left; and
    the bucket of the longest, int32 [ceil(N / B)].
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


def _batch_maker(rows: TokenizedExamples, bucket_lengths: np.ndarray) -> MakeBatch:
    """A function of tf.data from examples [B], -1 for none, and a bucket to the batch at its length."""
    with tf.device("CPU:0"):
        tokens, starts, lengths = map(tf.constant, (rows.tokens, rows.starts, rows.lengths))
        features = {name: tf.constant(values) for name, values in rows.features.items()}
        token_labels = None if rows.token_labels is None else tf.constant(rows.token_labels)
    input_format = rows.vocabulary.input_format
    before, after = len(input_format.start), len(input_format.end)
    label_format = InputFormat(start=(-1,) * before, between=(), end=(-1,) * after, padding=-1)
    # A Python number where there is only one, for the shape to be static.
    static = int(bucket_lengths[0]) if len(set(bucket_lengths)) == 1 else None

    def make(examples: tf.Tensor, bucket: tf.Tensor) -> dict[str, tf.Tensor]:
        is_example, found = examples >= 0, tf.maximum(examples, 0)  # [B]
        begins, counts = tf.gather(starts, found), tf.gather(lengths, found)  # [B, (C,) G]
        length = static or tf.gather(bucket_lengths, bucket)
        places = []
        for n in range(begins.shape[-1]):
            firsts, numbers = (tf.reshape(values[..., n], [-1]) for values in (begins, counts))
            limits = firsts + tf.cast(numbers, tf.int64)
            places.append(tf.ragged.range(firsts, limits, row_splits_dtype=tf.int64))

        def packed(values: tf.Tensor, frame: InputFormat) -> dict[str, tf.Tensor]:
            """The inputs of values of all tokens."""
            segments = [place.with_values(tf.gather(values, place.values)) for place in places]
            return pack(segments, length, frame)

        is_there = (begins[..., 0] >= 0) & tf.reshape(is_example, [-1, *[1] * (begins.shape.rank - 2)])
        shape = [*begins.shape[:-1], static]
        batch = {}
        for name, tensor in packed(tokens, input_format).items():
            tensor = tf.ensure_shape(tf.reshape(tensor, [*shape[:-1], length]), shape)
            batch[name] = _where(is_there, tensor, input_format.padding if name == WORD_IDS else 0)
        for name, values in features.items():
            filler = -1 if name == LABELS and values.dtype.is_integer else 0
            batch[name] = _where(is_example, tf.gather(values, found), filler)
        if token_labels is not None:
            labels = tf.ensure_shape(packed(token_labels, label_format)[WORD_IDS], shape)
            batch[LABELS] = _where(is_example, labels, -1)
        return batch | {ROWS: examples}

    return make


def _where(is_there: tf.Tensor, values: tf.Tensor, filler: int) -> tf.Tensor:
    """The values [B, …] of what is there, bool [B] or [B, C], and the filler for the others."""
    for _ in range(values.shape.rank - is_there.shape.rank):
        is_there = is_there[..., tf.newaxis]
    return tf.where(is_there, values, tf.cast(filler, values.dtype))
