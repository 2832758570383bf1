"""The two tasks of `prepare`: a slice of a file to a spill of sorted documents, and all spills to a shard.

A spill is the file `run-<number>` that a slice becomes: its documents, those of a shard side by side.
`run-<number>.json` says where in it each shard begins.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from albert_tf.data.documents import hash_bucket, in_hash_range
from albert_tf.data.prepared import BYTES, EVAL, TRAIN, encode_document, shard_name
from albert_tf.preprocessing.plan import Preparation
from albert_tf.preprocessing.reading import FileSlice, Part, read_slice
from albert_tf.preprocessing.stored_examples import write_examples
from albert_tf.preprocessing.whole_files import read_json, whole_file, write_json
from albert_tf.tokenizers.base import Tokenize
from albert_tf.tokenizers.kinds import SavedTokenizer

_BYTES_PER_BATCH = 1 << 20  # bytes that are tokenised together
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
        batches = _batches(read_slice(file_slice, stream, plan.input_format, plan.text_field, counts))
        parts = itertools.chain.from_iterable(_tokenized(batch, plan, counts) for batch in batches)
        for _, group in itertools.groupby(parts, key=lambda part: part[0]):
            _, shards, whole = zip(*group, strict=True)  # all parts of a document
            for shard, document in zip(shards, _identified(whole), strict=True):
                by_shard[shard].append(document)
    path = plan.unfinished(spill_name(file_slice.number))
    slices, position = {}, 0
    with whole_file(path, plan.unfinished()) as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
        for shard, documents in by_shard.items():
            content = b"".join(
                _HEADER.pack(*document[:4], len(document.record)) + document.record
                for document in sorted(documents)
            )
            file.write(content)
            slices[shard] = (position, len(content))
            position += len(content)
    write_json(f"{path}.json", {"counts": counts, "slices": slices})


def _batches(parts: Iterator[Part]) -> Iterator[list[Part]]:
    """Parts in groups of about _BYTES_PER_BATCH bytes."""
    batch: list[Part] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += sum(map(len, part.sentences))
        if size >= _BYTES_PER_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _identified(parts: Sequence[Document]) -> Iterator[Document]:
    """The parts of a document with their identities: they need its end, which comes last."""
    whole = hashlib.blake2b(b"".join(part.digest for part in parts), digest_size=16)
    for place, part in enumerate(parts):
        identity = whole.copy()
        identity.update(b"%d" % place)
        yield part._replace(identity=identity.digest())


def _tokenized(
    batch: list[Part], plan: Preparation, counts: Counter[str]
) -> Iterator[tuple[int, str, Document]]:
    """The parts of a batch that have any tokens: the document's number, the shard's name, and the part."""
    tokens = _tokenize(plan.tokenizer)(tf.constant([line for part in batch for line in part.sentences]))
    ids, splits = tokens.flat_values.numpy(), tokens.row_splits.numpy()
    buckets = hash_bucket(tf.constant([part.head for part in batch]))
    held_out = in_hash_range(buckets, (0.0, plan.eval_share)).numpy()
    first = 0
    for part, bucket, is_eval in zip(batch, buckets.numpy().tolist(), held_out, strict=True):
        borders = splits[first : first + len(part.sentences) + 1]
        first += len(part.sentences)
        lengths = [length for length in (borders[1:] - borders[:-1]).tolist() if length]
        if not lengths:
            counts["dropped_empty"] += 1
            continue
        text = b"\n".join(part.sentences)
        digest = hashlib.blake2b(text, digest_size=16, key=str(plan.seed).encode()).digest()
        split = EVAL if is_eval else TRAIN
        count = plan.shard_counts[split]
        record = encode_document(ids[borders[0] : borders[-1]].tolist(), lengths, bucket)
        shard = shard_name(split, int.from_bytes(digest, "little") % count, count)
        yield part.document, shard, Document(digest, b"", len(lengths), sum(lengths), record)


@functools.lru_cache(maxsize=2)
def _tokenize(tokenizer: SavedTokenizer) -> Tokenize:
    """Made once in each process."""
    return tokenizer.open().for_corpora()


def write_shard(name: str, plan: Preparation, spills: int, spills_written: int) -> None:
    """Merges a shard from all spills, and writes a JSON file of its counts into the unfinished folder.

    Args:
      name: the shard's.
      plan: what to prepare.
      spills: how many there are.
      spills_written: of these in this run of the pipeline; the argument lets the task wait for them.
    """
    documents = sorted(document for number in range(spills) for document in _read_spill(number, name, plan))
    kept = documents
    if plan.dedup:
        kept = [
            next(same) for _, same in itertools.groupby(documents, key=lambda document: document.identity)
        ]
    counts = {
        "documents": len(kept),
        "sentences": sum(document.sentences for document in kept),
        "tokens": sum(document.tokens for document in kept),
        "dropped_duplicate": len(documents) - len(kept),
    }
    with whole_file(plan.path(name), plan.unfinished()) as temporary:
        with tf.io.TFRecordWriter(temporary) as file:
            for document in kept:
                file.write(document.record)
        if plan.format == "examples":
            counts["examples"] = write_examples(temporary, name, plan)
        counts[BYTES] = tf.io.gfile.stat(temporary).length
    write_json(plan.unfinished(f"{name}.json"), counts)


def _read_spill(number: int, shard: str, plan: Preparation) -> Iterator[Document]:
    """A spill's documents of a shard, in order."""
    path = plan.unfinished(spill_name(number))
    begin, size = read_json(f"{path}.json")["slices"][shard]
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(begin)
        content = file.read(size) if size else b""
    position = 0
    while position < size:
        digest, identity, sentences, tokens, length = _HEADER.unpack_from(content, position)
        position += _HEADER.size + length
        yield Document(digest, identity, sentences, tokens, content[position - length : position])
