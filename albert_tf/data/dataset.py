"""`pretraining_dataset`: batches of pre-training examples from text."""

from __future__ import annotations

import os
import socket
import urllib.parse
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from albert_tf.constants import PACKED_FORMATS
from albert_tf.data.documents import CorpusSplit, corpus_documents, shuffle_elements
from albert_tf.data.example_builder import ExampleBuilder, fill_batch
from albert_tf.data.sources import DocumentSource, document_source, find_inputs, is_prepared
from albert_tf.data.tfrecords import (
    assert_documents_remain,
    check_example,
    decode_examples,
    first_example,
    tfrecord_reader,
)
from albert_tf.errors import InputError
from albert_tf.recipes import ExampleSettings
from albert_tf.settings import replace_fields
from albert_tf.text.files import Paths
from albert_tf.text.lines import without_autotuning
from albert_tf.text.tokenizer import open_tokenizer


def from_data_service(batches: tf.data.Dataset, address: str | None) -> tf.data.Dataset:
    """Lets the workers of a tf.data service make the batches. Without an address nothing changes.

    The workers divide the outermost dataset.

    Raises:
      ConnectionError: nobody listens at the address, grpc://host:port; TensorFlow would try for ever.
    """
    if address is None:
        return batches
    try:
        url = urllib.parse.urlsplit(address)
        socket.create_connection((url.hostname or "", url.port or 0), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"data_service={address!r} does not answer ({error}): start its dispatcher, or correct the "
            "address, grpc://host:port"
        ) from error
    dynamic = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return batches.apply(tf.data.experimental.service.distribute(dynamic, address))


EXAMPLE_SHUFFLE_BUFFER = 4096


class NoExamplesError(InputError):
    """The inputs, or the requested share of them, give no examples."""


@tf.autograph.experimental.do_not_convert
def pretraining_dataset(
    inputs: Paths,
    vocabulary: str | os.PathLike,
    batch_size: int = 32,
    seq_length: int = ExampleSettings.seq_length,
    *,
    lowercase: bool | None = None,
    strip_accents: bool | None = None,
    seed: int = 0,
    shuffle: bool = True,
    repeat: bool = True,
    input_context: tf.distribute.InputContext | None = None,
    share: CorpusSplit | None = None,
    cache: bool = False,
    data_service: str | None = None,
    **settings: Any,
) -> tf.data.Dataset:
    r"""A `tf.data.Dataset` of masked pre-training batches of static shape, made from text.

    The same arguments give the same bytes. The function first reads the text once to its end and checks it.
    Shuffling reads the files in random order and mixes four files, then 1024 documents, then 4096 examples.
    Documents longer than 128 KiB are read in parts. This limits the memory. Google's TFRecords keep their
    stored masks and pairs.

    Args:
      inputs: a path, a glob or a list of them. Text files, also .gz, with one sentence or paragraph per line
        and blank lines between documents; a folder that `albert-tf prepare` wrote (its training shards are
        read) or files of it; or TFRecords of google-research/albert.
      vocabulary: path of a vocabulary that `Tokenizer` can open.
      batch_size: examples in a batch of this input pipeline, B.
      seq_length: tokens in an example, S (512).
      lowercase: True to fold case; None: as the vocabulary was trained.
      strip_accents: True to remove accents; None: as the vocabulary was trained.
      seed: seed of shuffling, pairing and masking.
      shuffle: False to keep the order of the text.
      repeat: False to end after one epoch. The last batch is then filled up with rows whose mask and weights
        are 0 and whose label is -1.
      input_context: number and count of the input pipelines, as TensorFlow passes them in distributed
        training. A pipeline reads whole files if that divides the text about evenly, and otherwise every n-th
        document.
      share: the part of the documents to read. None: all.
      cache: True to keep the documents in memory after the first epoch, in the order of the text. It suits a
        small part of a large corpus that is read many times.
      data_service: address of the dispatcher of a tf.data service, `grpc://host:port`. Its workers make the
        batches. Each worker reads epochs of its own, and the order of the batches depends on their speed. The
        state of such an iterator cannot be saved.
      **settings: how examples are made. `max_predictions` (int: masked tokens in an example, P; default
        ceil(masked_lm_prob · seq_length), for TFRecords the stored number), `input_format` ("segment_pair",
        "sentence_pair", "full_sentences" or "doc_sentences"), `sentence_objective` ("sop", "nsp" or "none"),
        `short_seq_prob` (0.1), `masked_lm_prob` (0.15), `max_ngram` (longest masked span, 3 words) and
        `whole_word` (True).
    Returns:
      A dataset of dicts: `input_word_ids`, `input_mask`, `input_type_ids` int32 [B, S]; `masked_lm_positions`
      (ascending, padded with 0) and `masked_lm_ids` int32 [B, P]; `masked_lm_weights` float32 [B, P]; and
      `sentence_order_labels` or `next_sentence_labels` int32 [B], unless the sentence objective is "none".
      `tf.train.Checkpoint` can save a plain iterator, which then continues with the next batch.
    Raises:
      FileNotFoundError: an input or the vocabulary does not exist.
      ConnectionError: the tf.data service does not answer.
      InputError: an argument is invalid; the data was prepared with another vocabulary; the vocabulary was
        trained on text that was normalised in another way; a file is damaged or is not text; or there is no
        text.

    Example:
      >>> import albert_tf, pathlib
      >>> text = "The sea is warm.\nThe wind is cold.\n\nThe film begins.\nIt ends.\n"
      >>> _ = pathlib.Path("corpus.txt").write_text(text)
      >>> vocabulary = "demo-output/run/spiece.model"
      >>> dataset = albert_tf.pretraining_dataset("corpus.txt", vocabulary, batch_size=8, seq_length=64)
      >>> batch = next(iter(dataset))
      >>> batch["input_word_ids"].shape, batch["masked_lm_ids"].shape
      (TensorShape([8, 64]), TensorShape([8, 10]))
    """
    tokenizer = open_tokenizer(vocabulary, lowercase=lowercase, strip_accents=strip_accents)
    kind, files = find_inputs(inputs, tokenizer)
    example_settings = ExampleSettings(seq_length=seq_length, **settings)
    context = input_context or tf.distribute.InputContext()
    epochs = tf.int64.max if repeat else 1
    if kind == "examples" and share is None:
        form, share_masked = example_settings.input_format, example_settings.masked_lm_prob
        if form in PACKED_FORMATS or not share_masked:
            other = f"input_format={form}, masked_lm_prob={share_masked}"
            raise InputError(f"{files[0]} holds finished examples, masked pairs, and not {other}: name text")
        if example_settings.sentence_objective == "nsp" and any(map(is_prepared, files)):
            raise InputError(f"{files[0]}: prepare made its pairs for sop: set sentence_objective=sop")
        first, vocab_size = first_example(files), len(tokenizer.vocabulary)
        predictions = check_example(first, files[0], seq_length, example_settings.max_predictions, vocab_size)
        example_settings = replace_fields(example_settings, max_predictions=predictions)
        builder = ExampleBuilder(tokenizer.vocabulary, example_settings, batch_size)
        batches = stored_batches(files, builder, context, epochs, seed if shuffle else None)
    else:
        builder = ExampleBuilder(tokenizer.vocabulary, example_settings, batch_size)
        source = document_source(kind, files, tokenizer, context).select(share)
        # Without this check an endless dataset would search for its first example for ever.
        if not _has_examples(source, context, builder):
            where = f" from {share.begin:.4g} to {share.end:.4g} of {share.of}" if share else ""
            raise NoExamplesError(
                f"{', '.join(files[:3])}, part {context.input_pipeline_id} of {context.num_input_pipelines}:"
                f"{where} no text to make examples of; documents need at least two words "
                "(sentence_pair: sentences)"
            )
        if example_settings.sentence_objective == "nsp" and _is_single_document(source, context):
            logging.warning("%s: one document alone, so all labels of nsp are 0", ", ".join(files[:3]))
        batches = example_batches(source, builder, context, epochs, seed, shuffle, cache)
    return from_data_service(batches, data_service)


def example_batches(
    source: DocumentSource,
    builder: ExampleBuilder,
    context: tf.distribute.InputContext,
    epochs: int,
    seed: int,
    shuffle: bool = True,
    cache: bool = False,
) -> tf.data.Dataset:
    """Masked batches that one input pipeline makes from documents.

    Each epoch makes other examples. See `pretraining_dataset` for seed, shuffle and cache.
    """
    pipeline_seed = tf.constant([seed, context.input_pipeline_id], tf.int64)

    # Outside of the function of an epoch, so that all epochs and iterators share the cache.
    cached = builder.blocks(source.blocks(context)).cache() if cache else None

    def rows(epoch: tf.Tensor) -> tf.data.Dataset:
        if epochs == tf.int64.max and not cache:  # a number of epochs ends even without documents
            documents = corpus_documents(source.files, source.read, context)
            with tf.control_dependencies([assert_documents_remain(documents, source.files)]):
                epoch = tf.identity(epoch)
        block_seed, example_seed = tf.unstack(tf.random.split(tf.random.fold_in(pipeline_seed, epoch)))
        blocks = cached or builder.blocks(source.blocks(context, seed if shuffle else None, epoch))
        rows = (
            blocks.enumerate()
            .map(lambda i, block: builder.rows(block, tf.random.fold_in(block_seed, i)), tf.data.AUTOTUNE)
            .unbatch()
        )
        return shuffle_elements(rows, EXAMPLE_SHUFFLE_BUFFER, example_seed) if shuffle else rows

    return _batch_epochs(epochs, rows, builder.batch, builder.batch_size)


def stored_batches(
    files: list[str],
    builder: ExampleBuilder,
    context: tf.distribute.InputContext,
    epochs: int,
    seed: int | None,
) -> tf.data.Dataset:
    """Batches of the examples stored in TFRecord files, shuffled unless the seed is None."""
    read = tfrecord_reader(files)

    def batch(records: tf.Tensor) -> dict[str, tf.Tensor]:
        return fill_batch(decode_examples(records, builder.settings), builder.batch_size, builder.settings)

    def rows(epoch: tf.Tensor) -> tf.data.Dataset:
        return corpus_documents(files, read, context, seed, epoch)

    return _batch_epochs(epochs, rows, batch, builder.batch_size)


def _batch_epochs(
    epochs: int,
    rows: Callable[[tf.Tensor], tf.data.Dataset],
    batch: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    batch_size: int,
) -> tf.data.Dataset:
    """Batches of the rows of all epochs, fit for `tf.train.Checkpoint` and for the tf.data service."""
    # TensorFlow calls a shuffle inside of flat_map stateful, although its seed generator is only a dummy.
    options = tf.data.Options()
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    batches = (
        tf.data.Dataset.range(epochs)
        .flat_map(rows)
        .batch(batch_size)
        .map(batch, tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    return without_autotuning(batches.with_options(options))


def _is_single_document(source: DocumentSource, context: tf.distribute.InputContext) -> bool:
    """True if a pipeline reads only one document, so that no segment of another one can follow."""
    return len(list(corpus_documents(source.files, source.read, context).take(2))) < 2


def _has_examples(
    source: DocumentSource, context: tf.distribute.InputContext, builder: ExampleBuilder
) -> bool:
    """True if the documents that a pipeline reads give at least one example."""
    blocks = builder.blocks(source.blocks(context))
    return any(tf.size(builder.rows(block, tf.constant([0, 0]))) > 0 for block in blocks)
