"""What `prepare` reads and writes: files of text to documents, documents to shards."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import SENTENCE_LABELS
from albert_tf.data.dataset import example_batches
from albert_tf.data.documents import (
    BYTES_HASHED,
    MAX_DOCUMENT_BYTES,
    Documents,
    documents_of,
    hash_bucket,
    in_hash_range,
    tokenize_documents,
)
from albert_tf.data.example_builder import ExampleBuilder
from albert_tf.data.prepare_plan import (
    Preparation,
    check_spill,
    is_finished,
    read_output_json,
    whole_output_file,
    write_output_json,
)
from albert_tf.data.prepared import BYTES_FEATURE, EVAL_SHARDS, TRAIN_SHARDS, encode_document, shard_name
from albert_tf.data.sources import prepared_source
from albert_tf.data.tfrecords import encode_examples
from albert_tf.recipes import ExampleSettings
from albert_tf.text.files import GZIP_SUFFIX, check_utf8, open_decompressed
from albert_tf.text.lines import (
    MAX_SENTENCE_BYTES,
    bounded_lines,
    group_by_size,
    is_blank,
    split_lines,
    split_sentences,
)
from albert_tf.text.text_tokenizer import Tokenize
from albert_tf.text.tokenizer import TokenizerConfig

SLICE_BYTES = 32 << 20
_LONGEST_LINE_BYTES = SLICE_BYTES  # that is read at once, where a line need not be whole
_END_OF_DOCUMENT = b""


class FileSlice(NamedTuple):
    """The part of a file that one task reads: the documents that begin in it."""

    number: int
    file: str
    begin: int  # bytes
    end: int  # bytes


class Part(NamedTuple):
    """A document, or a part of a long one."""

    document: int  # its number in the slice
    head: bytes  # how the document begins
    sentences: list[bytes]  # UTF-8, without whitespace around them


def file_slices(files: Iterable[tuple[str, int]]) -> list[FileSlice]:
    """All slices of files, given by path and size, numbered in order; a compressed file is one slice."""
    found: list[FileSlice] = []
    for file, size in files:
        length = max(size, 1) if file.endswith(GZIP_SUFFIX) else SLICE_BYTES
        for begin in range(0, size, length):
            found.append(FileSlice(len(found), file, begin, min(begin + length, size)))
    return found


def read_slice(
    file_slice: FileSlice, stream: IO[bytes], input_format: str, text_field: str, counts: Counter[str]
) -> Iterator[Part]:
    """The documents of a slice; one of more than MAX_DOCUMENT_BYTES comes in parts.

    Args:
      file_slice: what to read.
      stream: its file from the beginning, as it is stored.
      input_format: a key of FORMATS.
      text_field: of "jsonl", where the text is.
      counts: is updated by how many were read, and what was dropped and why.
    Raises:
      InputError: the slice is not UTF-8, or the file is a damaged .gz.
    """
    end = sys.maxsize if file_slice.file.endswith(GZIP_SUFFIX) else file_slice.end
    longest = _LONGEST_LINE_BYTES if input_format == "lines" else None
    with open_decompressed(file_slice.file, stream) as opened:
        lines = _lines(opened, file_slice.begin, longest)
        sentences = DOCUMENT_READERS[input_format](lines, end, text_field, counts)
        try:
            yield from _documents(sentences, counts)
        except UnicodeDecodeError:
            opened.seek(0)
            check_utf8(opened, file_slice.file)  # raises, with the line


def _documents(sentences: Iterator[bytes], counts: Counter[str]) -> Iterator[Part]:
    """Documents from their sentences; an empty one ends a document, over-long ones become several."""
    head: bytes | None = None
    part: list[bytes] = []
    size = documents = 0
    for sentence in _bounded(sentences):
        if sentence:
            part.append(sentence)
            size += len(sentence) + 1
        if part and (size > MAX_DOCUMENT_BYTES or not sentence):
            counts["documents_read" if head is None else "further_parts_of_long_documents"] += 1
            head = b"\n".join(part)[:BYTES_HASHED] if head is None else head
            yield Part(documents, head, part)
            part, size = [], 0
        if not sentence:
            head = None
            documents += 1


def _bounded(sentences: Iterator[bytes]) -> Iterator[bytes]:
    """Sentences, cut as those that are read straight from text."""
    for sentence in sentences:
        if len(sentence) > MAX_SENTENCE_BYTES:
            yield from bounded_lines(tf.constant([sentence])).numpy()
        else:
            yield sentence


def _lines(stream: IO[bytes], begin: int, longest: int | None) -> Iterator[tuple[int, bytes]]:
    """Position and content of the lines from a position on, b"" of those in which nothing can be seen.

    Lines that are longer than `longest` come in parts. UnicodeDecodeError if they are not UTF-8.
    """
    position = max(begin - 1, 0)
    is_rest = is_before = begin > 0  # of a line that has begun; of one that the slice before owns
    if is_before:
        stream.seek(position)
    for part in split_lines(stream, longest):
        if not is_before:
            line = b"" if is_blank(part) else part.strip()
            if line or not is_rest:
                yield position, line
        position += len(part)
        is_rest = not part.endswith((b"\n", b"\r"))
        is_before &= is_rest


def _blank_line_documents(lines: Iterator[tuple[int, bytes]], end: int) -> Iterator[bytes]:
    """Documents between blank lines, a sentence a line.

    A slice owns the documents after its first blank line, up to the first blank line after its end; the first
    slice of a file also owns its beginning.
    """
    inside = False
    for position, line in lines:
        if not line and position >= end:
            break
        inside = inside or position == 0 or not line
        if inside:
            yield line
    yield _END_OF_DOCUMENT


def _line_documents(
    lines: Iterator[tuple[int, bytes]], end: int, text_of: Callable[[bytes], str]
) -> Iterator[bytes]:
    """A document a line; what UTF-8 has no bytes for (JSON's lone surrogates) becomes ?."""
    for position, line in lines:
        if position >= end:
            return
        for sentence in split_sentences(text_of(line)):
            yield sentence.encode("utf-8", "replace")
        yield _END_OF_DOCUMENT


def _json_text(line: bytes, text_field: str, counts: Counter[str]) -> str:
    """The text in a line of JSON; "" where there is none, which is counted but for a blank line."""
    if not line:
        return ""
    try:
        text = json.loads(line)[text_field]
        counts["dropped_empty"] += not text.strip()
        return text
    except (ValueError, RecursionError):
        counts["dropped_invalid_json"] += 1
    except (AttributeError, KeyError, TypeError):
        counts["dropped_without_text_field"] += 1
    return ""


# By their names: functions of lines, the slice's end, the text field and the counts.
DOCUMENT_READERS: dict[str, Callable[..., Iterator[bytes]]] = {
    "lines": lambda lines, end, *_: _blank_line_documents(lines, end),
    "document_per_line": lambda lines, end, *_: _line_documents(lines, end, bytes.decode),
    "jsonl": lambda lines, end, *of_json: _line_documents(lines, end, lambda x: _json_text(x, *of_json)),
}


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
    if is_finished(plan, spill_name(file_slice.number)):
        return
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
    if is_finished(plan, name):
        return
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
