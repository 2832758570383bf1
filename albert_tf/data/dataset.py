"""Text to batches of pre-training examples."""

from __future__ import annotations

import os
import socket
import urllib.parse
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from absl import logging

from albert_tf.data.documents import CorpusSplit, corpus_documents, shuffle_documents
from albert_tf.data.example_builder import ExampleBuilder, fill_batch
from albert_tf.data.sources import DocumentSource, document_source, find_inputs
from albert_tf.data.tfrecords import (
    check_documents_left,
    check_example,
    decode_examples,
    first_example,
    tfrecord_reader,
)
from albert_tf.errors import InputError
from albert_tf.recipes import ExampleSettings
from albert_tf.settings import replace_fields
from albert_tf.text.files import Paths
from albert_tf.text.tokenizer import open_tokenizer


def from_data_service(batches: tf.data.Dataset, address: str | None) -> tf.data.Dataset:
    """Batches as a service makes them, whose workers divide the outermost dataset; without one as they are.

    Raises:
      ConnectionError: nobody listens at the address, grpc://host:port; TensorFlow would try for ever.
    """
    if address is None:
        return batches
    try:
        place = urllib.parse.urlsplit(address)
        socket.create_connection((place.hostname or "", place.port or 0), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"data_service={address!r} does not answer ({error}): start its dispatcher, or correct the "
            "address, grpc://host:port"
        ) from error
    dynamic = tf.data.experimental.service.ShardingPolicy.DYNAMIC
    return batches.apply(tf.data.experimental.service.distribute(dynamic, address))


EXAMPLES_SHUFFLED = 4096


class NothingFound(InputError):
    """Inputs, or a share of them, that no example comes of."""


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
    r"""Text to masked batches of static shape, as an endless `tf.data.Dataset`.

    The same arguments give the same bytes. Text is first read once to its end and checked. Shuffling takes
    the files in random order and mixes four files, then 1024 documents, then 4096 examples; documents longer
    than 128 KiB come in parts. This limits the memory. Google's TFRecords keep the masks and pairs that are
    stored in them.

    Args:
      inputs: a path, a glob or a list of them. Text files, also .gz, with one sentence or paragraph per line
        and blank lines between documents; a folder that `albert-tf prepare` wrote (its training shards are
        read) or files of it; or TFRecords of google-research/albert.
      vocabulary: path of the vocabulary, as `Tokenizer` takes it.
      batch_size: examples in a batch of this input pipeline, B.
      seq_length: tokens in an example, S (512).
      lowercase: True to fold case; None: as the vocabulary was trained.
      strip_accents: True to remove accents; None: as the vocabulary was trained.
      seed: seed of everything random.
      shuffle: False to keep the order of the text.
      repeat: False to end after one epoch. The last batch is then filled up with rows whose mask and weights
        are 0 and whose label is -1.
      input_context: which of several input pipelines this is. Each reads whole files if there are enough of
        them, and otherwise every n-th document.
      share: the part of the documents to read. None: all.
      cache: True to keep the documents in memory after the first epoch; they then come in the order of the
        text. For a small part of a large corpus that is read many times.
      data_service: address of the dispatcher of a tf.data service, `grpc://host:port`. Its workers make the
        batches, each worker from epochs of its own, and the order depends on their speed. The state of such
        an iterator cannot be saved.
      **settings: how examples are made. `max_predictions` (int: masked tokens in an example, P; default
        ceil(masked_lm_prob · seq_length), for TFRecords the stored number), `input_format` ("segment_pair",
        "sentence_pair", "full_sentences" or "doc_sentences"), `sentence_objective` ("sop", "nsp" or "none"),
        `short_seq_prob` (0.1), `masked_lm_prob` (0.15), `max_ngram` (longest masked span, 3 words) and
        `whole_word` (True).
    Returns:
      A dataset of dicts: `input_word_ids`, `input_mask`, `input_type_ids` int32 [B, S]; `masked_lm_positions`
      (ascending, padded with 0) and `masked_lm_ids` int32 [B, P]; `masked_lm_weights` float32 [B, P]; and
      `sentence_order_labels` or `next_sentence_labels` int32 [B], unless the sentence objective is "none". A
      plain iterator can be saved with `tf.train.Checkpoint` and continues with the next batch.
    Raises:
      FileNotFoundError: an input or the vocabulary does not exist.
      ConnectionError: the tf.data service does not answer.
      InputError: an argument is impossible; the data was prepared with another vocabulary; the vocabulary was
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
    examples = ExampleSettings(seq_length=seq_length, **settings)
    part = input_context or tf.distribute.InputContext()
    epochs = tf.int64.max if repeat else 1
    if kind == "examples" and share is None:
        first, pieces = first_example(files), len(tokenizer.vocabulary)
        stored = check_example(first, files[0], seq_length, examples.max_predictions, pieces)
        maker = ExampleBuilder(
            tokenizer.vocabulary, replace_fields(examples, max_predictions=stored), batch_size
        )
        batches = stored_batches(files, maker, part, epochs, seed if shuffle else None)
    else:
        maker = ExampleBuilder(tokenizer.vocabulary, examples, batch_size)
        source = document_source(kind, files, tokenizer, part).part(share)
        # Without a look at the first of them an endless dataset would search for its first example for ever.
        if not _has_examples(source, part, maker):
            where = f" from {share.begin:.4g} to {share.end:.4g} of {share.of}" if share else ""
            raise NothingFound(
                f"{', '.join(files[:3])}, part {part.input_pipeline_id} of {part.num_input_pipelines}:"
                f"{where} no text to make examples of; documents need at least two words "
                "(sentence_pair: sentences)"
            )
        if examples.sentence_objective == "nsp" and _are_single(source, part):
            logging.warning("%s: one document alone, so all labels of nsp are 0", ", ".join(files[:3]))
        batches = example_batches(source, maker, part, epochs, seed, shuffle, cache)
    return from_data_service(batches, data_service)


def example_batches(
    source: DocumentSource,
    maker: ExampleBuilder,
    part: tf.distribute.InputContext,
    epochs: int,
    seed: int,
    shuffle: bool = True,
    cache: bool = False,
) -> tf.data.Dataset:
    """Documents to masked batches, those of one pipeline: the `part` of several.

    Each of the epochs reads the files for other examples; seed, shuffle and cache are as of
    `pretraining_dataset`.
    """
    pipeline_seed = tf.constant([seed, part.input_pipeline_id], tf.int64)

    # Made here and not in each epoch, so that all epochs and iterators have it in common.
    cached = maker.blocks(source.blocks(part)).cache() if cache else None

    def rows(epoch: tf.Tensor) -> tf.data.Dataset:
        if epochs > 1 and not cache:  # a single one ends
            documents = corpus_documents(source.files, source.read, part)
            with tf.control_dependencies([check_documents_left(documents, source.files)]):
                epoch = tf.identity(epoch)
        block_seed, example_seed = tf.unstack(tf.random.split(tf.random.fold_in(pipeline_seed, epoch)))
        blocks = cached or maker.blocks(source.blocks(part, seed if shuffle else None, epoch))
        rows = (
            blocks.enumerate()
            .map(lambda i, block: maker.rows(block, tf.random.fold_in(block_seed, i)), tf.data.AUTOTUNE)
            .unbatch()
        )
        return shuffle_documents(rows, EXAMPLES_SHUFFLED, example_seed) if shuffle else rows

    return _batches(epochs, rows, maker.batch, maker.batch_size)


def stored_batches(
    files: list[str], maker: ExampleBuilder, part: tf.distribute.InputContext, epochs: int, seed: int | None
) -> tf.data.Dataset:
    """Stored examples to batches, in a random order of the seed or, with None, in their own."""
    read = tfrecord_reader(files)

    def batch(records: tf.Tensor) -> dict[str, tf.Tensor]:
        return fill_batch(decode_examples(records, maker.settings), maker.batch_size, maker.settings)

    return _batches(
        epochs, lambda epoch: corpus_documents(files, read, part, seed, epoch), batch, maker.batch_size
    )


def _batches(
    epochs: int,
    rows: Callable[[tf.Tensor], tf.data.Dataset],
    batch: Callable[[tf.Tensor], dict[str, tf.Tensor]],
    batch_size: int,
) -> tf.data.Dataset:
    """The rows of all epochs in batches, fit for `tf.train.Checkpoint` and for the tf.data service."""
    # A shuffle inside of flat_map is called stateful, although its seed generator is but a dummy.
    options = tf.data.Options()
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    return (
        tf.data.Dataset.range(epochs)
        .flat_map(rows)
        .batch(batch_size)
        .map(batch, tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )


def _are_single(source: DocumentSource, part: tf.distribute.InputContext) -> bool:
    """True if a pipeline reads one document alone, in which there is no random other one."""
    return len(list(corpus_documents(source.files, source.read, part).take(2))) < 2


def _has_examples(source: DocumentSource, part: tf.distribute.InputContext, maker: ExampleBuilder) -> bool:
    """True if any example comes of the documents that a pipeline reads."""
    rows = (maker.rows(block, tf.constant([0, 0])) for block in maker.blocks(source.blocks(part)))
    return any(tf.size(found) > 0 for found in rows)
