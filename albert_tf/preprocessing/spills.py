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
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, NamedTuple

import tensorflow as tf

from albert_tf.data.documents import hash_bucket, in_hash_range
from albert_tf.data.prepared import BYTES, EVAL, TRAIN, encode_document, shard_name
from albert_tf.preprocessing.plan import Preparation
from albert_tf.preprocessing.reading import FileSlice, Part, read_slice
from albert_tf.preprocessing.stored_examples import write_examples
from albert_tf.preprocessing.whole_files import read_json, whole_file, write_json
from albert_tf.tokenizers.kinds import SavedTokenizer
from albert_tf.tokenizers.tokenizer import Tokenize

_BYTES_PER_BATCH = 1 << 20  # bytes that are tokenised together
_HEADER = struct.Struct("<16s16sIII")  # of a Document in a spill: its fields, of the record its length


class Document(NamedTuple):
    """A document of a spill, or a part of a long one."""

    digest: bytes  # of its text and the seed: says which shard, and where in it
    identity: bytes  # digest of the whole document and of the part's place in it: two of them are duplicates
    sentences: int
    tokens: int
    record: bytes


def write_spill(file_slice: FileSlice, stream: IO[bytes], plan: Preparation) -> None:
    """Tokenises a slice and writes its documents sorted by shard and digest, beside a JSON file of counts.

    Args:
      file_slice: what to read.
      stream: that file from its beginning.
      plan: what to prepare.
    """
    counts: Counter[str] = Counter()
    by_shard: dict[str, list[Document]] = {name: [] for name in plan.shard_names}
    batches = _batches(read_slice(file_slice, stream, plan.input_format, plan.text_field, counts))
    parts = itertools.chain.from_iterable(_tokenized(batch, plan, counts) for batch in batches)
    for _, group in itertools.groupby(parts, key=lambda part: part[0]):
        _, shards, whole = zip(*group, strict=True)  # all parts of a document
        for shard, document in zip(shards, _identified(whole), strict=True):
            by_shard[shard].append(document)
    path = plan.unfinished(f"run-{file_slice.number:06d}")
    slices, position = {}, 0
    with whole_file(path, plan.unfinished()) as temporary, tf.io.gfile.GFile(temporary, "wb") as file:
        for shard, documents in by_shard.items():
            content = b"".join(
                _HEADER.pack(d.digest, d.identity, d.sentences, d.tokens, len(d.record)) + d.record
                for d in sorted(documents)
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
    tokenize = _tokenize(plan.tokenizer)
    tokens = tokenize(tf.constant([sentence for part in batch for sentence in part.sentences]))
    ids, splits = tokens.flat_values.numpy(), tokens.row_splits.numpy()
    buckets = hash_bucket(tf.constant([part.head for part in batch]))
    held_out = in_hash_range(buckets, (0.0, plan.eval_share)).numpy()
    first = 0
    for part, bucket, is_eval in zip(batch, buckets.numpy().tolist(), held_out, strict=True):
        borders = splits[first : first + len(part.sentences) + 1]
        first += len(part.sentences)
        lengths = (borders[1:] - borders[:-1]).tolist()
        lengths = [length for length in lengths if length]
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


def write_shard(name: str, spills: int, plan: Preparation) -> None:
    """Merges a shard from all spills, and writes a JSON file of its counts into the unfinished folder.

    Args:
      name: the shard's.
      spills: how many there are.
      plan: what to prepare.
    """
    documents = sorted(d for i in range(spills) for d in _read_spill(plan.unfinished(f"run-{i:06d}"), name))
    kept = documents
    if plan.dedup:
        kept = [
            d
            for d, last in zip(documents, [None, *documents], strict=False)
            if not last or d.identity != last.identity
        ]
    counts = {**_contents(kept), "dropped_duplicate": len(documents) - len(kept)}
    with whole_file(plan.shard_path(name), plan.unfinished()) as temporary:
        with tf.io.TFRecordWriter(temporary) as file:
            for document in kept:
                file.write(document.record)
        if plan.format == "examples":
            counts["examples"] = write_examples(temporary, name, plan)
        counts[BYTES] = tf.io.gfile.stat(temporary).length
    write_json(plan.unfinished(f"{name}.json"), counts)


def _contents(documents: Iterable[Document]) -> dict[str, int]:
    """The number of documents, sentences and tokens."""
    sizes = [(d.sentences, d.tokens) for d in documents]
    return {
        "documents": len(sizes),
        "sentences": sum(s for s, _ in sizes),
        "tokens": sum(t for _, t in sizes),
    }


def _read_spill(path: str, shard: str) -> Iterator[Document]:
    """A spill's documents of a shard, in order."""
    begin, size = read_json(f"{path}.json")["slices"][shard]
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(begin)
        content = file.read(size) if size else b""
    position = 0
    while position < size:
        digest, identity, sentences, tokens, length = _HEADER.unpack_from(content, position)
        position += _HEADER.size + length
        yield Document(digest, identity, sentences, tokens, content[position - length : position])
