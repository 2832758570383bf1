"""The two tasks of `prepare`: a slice of a file to a spill of sorted documents, and all spills to a shard.

A spill is the file `run-<number>` that a slice becomes: its documents, those of a shard side by side.
`run-<number>.json` says where in it each shard begins.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import struct
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import SENTENCE_LABELS
from albert_tf.data.dataset import example_batches
from albert_tf.data.documents import Documents, documents_of, hash_bucket, in_hash_range, tokenize_documents
from albert_tf.data.example_builder import ExampleBuilder
from albert_tf.data.prepare_plan import (
    Preparation,
    check_spill,
    read_output_json,
    whole_output_file,
    write_output_json,
)
from albert_tf.data.prepare_reading import FileSlice, Part, read_slice
from albert_tf.data.prepared import BYTES_FEATURE, EVAL_SHARDS, TRAIN_SHARDS, encode_document, shard_name
from albert_tf.data.sources import prepared_source
from albert_tf.data.tfrecords import encode_examples
from albert_tf.recipes import ExampleSettings
from albert_tf.text.lines import group_by_size
from albert_tf.text.text_tokenizer import Tokenize
from albert_tf.text.tokenizer import TokenizerConfig

_BYTES_PER_BATCH = 1 << 20  # bytes that are tokenised together
_EXAMPLES_PER_BATCH = 64
_HEADER = struct.Struct("<16s16sIII")  # of a Document in a spill: its fields, of the record its length


class Document(NamedTuple):
    """A document of a spill, or a part of a long one."""

    digest: bytes  # of its text and the seed: says which shard, and where in it
    identity: bytes  # digest of the whole document and of the part's place in it: two of them are duplicates
    sentences: int
    tokens: int
    record: bytes


def spill_name(number: int) -> str:
    """The name of the spill of a slice, and of the task that writes it."""
    return f"run-{number:06d}"


def write_spill(file_slice: FileSlice, plan: Preparation) -> None:
    """Tokenises a slice and writes its documents sorted by shard and digest, beside a JSON file of counts."""
    counts: Counter[str] = Counter()
    by_shard: dict[str, list[Document]] = {name: [] for name in plan.shard_names}
    with tf.io.gfile.GFile(file_slice.file, "rb") as stream:
        found = read_slice(file_slice, stream, plan.input_format, plan.text_field, counts)
        batches = group_by_size(found, lambda part: sum(map(len, part.sentences)), _BYTES_PER_BATCH)
        parts = itertools.chain.from_iterable(_tokenized(batch, plan, counts) for batch in batches)
        for _, group in itertools.groupby(parts, key=lambda part: part[0]):
            for shard, document in _identified(list(group)):
                by_shard[shard].append(document)
    path = plan.unfinished(spill_name(file_slice.number))
    slices, position = {}, 0
    with whole_output_file(path, plan.unfinished()) as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
        for shard, documents in by_shard.items():
            content = b"".join(
                _HEADER.pack(*document[:4], len(document.record)) + document.record
                for document in sorted(documents)
            )
            file.write(content)
            slices[shard] = (position, len(content))
            position += len(content)
    write_output_json(f"{path}.json", {"counts": counts, "slices": slices})


def _identified(parts: list[tuple[int, str, Document]]) -> Iterator[tuple[str, Document]]:
    """The parts of a document with their identities: they need its end, which comes last."""
    whole = hashlib.blake2b(b"".join(part.digest for *_, part in parts), digest_size=16)
    for place, (_, shard, part) in enumerate(parts):
        identity = whole.copy()
        identity.update(b"%d" % place)
        yield shard, part._replace(identity=identity.digest())


def _tokenized(
    batch: list[Part], plan: Preparation, counts: Counter[str]
) -> Iterator[tuple[int, str, Document]]:
    """The parts of a batch that have any tokens: the document's number, the shard's name, and the part."""
    texts = [b"\n".join(part.sentences) for part in batch]
    block = Documents(*map(np.array, tokenize_documents(tf.constant(texts), _tokenize(plan.tokenizer))))
    buckets = hash_bucket(tf.constant([part.head for part in batch]))
    held_out = in_hash_range(buckets, (0.0, plan.eval_share)).numpy()
    for part, text, (tokens, lengths), bucket, is_eval in zip(
        batch, texts, documents_of(block), buckets.numpy(), held_out, strict=True
    ):
        if not len(lengths):
            counts["dropped_empty"] += 1
            continue
        digest = hashlib.blake2b(text, digest_size=16, key=str(plan.seed).encode()).digest()
        split = EVAL_SHARDS if is_eval else TRAIN_SHARDS
        count = plan.shard_counts[split]
        shard = shard_name(split, int.from_bytes(digest, "little") % count, count)
        record = encode_document(tokens, lengths, bucket)
        yield part.document, shard, Document(digest, b"", len(lengths), len(tokens), record)


@functools.lru_cache(maxsize=2)
def _tokenize(tokenizer: TokenizerConfig) -> Tokenize:
    """Made once in each process."""
    return tokenizer.open().for_corpora()


def write_shard(name: str, plan: Preparation, spills: int, spills_written: int) -> None:
    """Merges a shard from all spills, and writes a JSON file of its counts into the unfinished folder.

    The last argument, how many spills this run of the pipeline has written, lets the task wait for them.
    """
    documents = sorted(document for number in range(spills) for document in _read_spill(number, name, plan))
    kept = documents
    if plan.dedup:
        kept = [next(same) for _, same in itertools.groupby(documents, key=lambda x: x.identity)]
    counts = {
        "documents": len(kept),
        "sentences": sum(document.sentences for document in kept),
        "tokens": sum(document.tokens for document in kept),
        "dropped_duplicate": len(documents) - len(kept),
    }
    with whole_output_file(plan.path(name), plan.unfinished()) as temporary:
        with tf.io.TFRecordWriter(temporary) as file:
            for document in kept:
                file.write(document.record)
        if plan.format == "examples":
            counts["examples"] = write_examples(temporary, name, plan)
        counts[BYTES_FEATURE] = tf.io.gfile.stat(temporary).length
    write_output_json(plan.unfinished(f"{name}.json"), counts)


def _read_spill(number: int, shard: str, plan: Preparation) -> Iterator[Document]:
    """A spill's documents of a shard, in order."""
    path = plan.unfinished(spill_name(number))
    begin, size = read_output_json(f"{path}.json", check_spill)["slices"][shard]
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(begin)
        content = file.read(size) if size else b""
    position = 0
    while position < size:
        digest, identity, sentences, tokens, length = _HEADER.unpack_from(content, position)
        position += _HEADER.size + length
        yield Document(digest, identity, sentences, tokens, content[position - length : position])


def example_maker(plan: Preparation) -> ExampleBuilder:
    """The maker of a plan's examples; InputError if its sizes are impossible."""
    settings = ExampleSettings(seq_length=plan.seq_length, max_predictions=plan.max_predictions)
    return ExampleBuilder(plan.tokenizer.open().vocabulary, settings, _EXAMPLES_PER_BATCH)


def write_examples(path: str, shard: str, plan: Preparation) -> int:
    """Replaces the documents in a file by examples made of them, dupe_factor times; returns how many.

    The shard's name decides about the seed.
    """
    seed = int.from_bytes(hashlib.blake2b(f"{plan.seed}/{shard}".encode(), digest_size=4).digest(), "little")
    maker = example_maker(plan)
    batches = example_batches(
        prepared_source([path]),
        maker,
        tf.distribute.InputContext(),
        epochs=1 if shard.startswith(EVAL_SHARDS) else plan.dupe_factor,
        seed=seed,
    )
    label = SENTENCE_LABELS[maker.settings.sentence_objective]
    count = 0
    with whole_output_file(path, os.path.dirname(path)) as temporary, tf.io.TFRecordWriter(temporary) as file:  # noqa: PTH120
        for batch in batches.as_numpy_iterator():
            for record in encode_examples(batch, maker.vocabulary, label):
                file.write(record)
                count += 1
    return count
