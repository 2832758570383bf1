"""The tasks of `prepare`: reading documents from text files, and writing them into shards."""

from __future__ import annotations

import codecs
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

from albert_tf.data.dataset import example_batches
from albert_tf.data.documents import (
    BYTES_HASHED,
    MAX_DOCUMENT_BYTES,
    Documents,
    hash_bucket,
    in_hash_range,
    iter_documents,
    tokenize_documents,
)
from albert_tf.data.example_builder import ExampleBuilder
from albert_tf.data.prepare_plan import (
    PreparationPlan,
    atomic_output_file,
    check_spill,
    is_finished,
    read_output_json,
    write_output_json,
)
from albert_tf.data.prepared import EVAL_SHARDS, SHARD_BYTES, TRAIN_SHARDS, encode_document, shard_name
from albert_tf.data.sources import prepared_source
from albert_tf.data.tfrecords import encode_examples
from albert_tf.recipes import ExampleSettings
from albert_tf.text.files import GZIP_SUFFIX, check_utf8, open_decompressed
from albert_tf.text.lines import (
    MAX_SENTENCE_BYTES,
    group_by_size,
    is_blank,
    split_lines,
    split_long_lines,
    split_sentences,
)
from albert_tf.text.text_tokenizer import Tokenize
from albert_tf.text.tokenizer import TokenizerConfig

SLICE_BYTES = 32 << 20
_LONGEST_LINE_BYTES = SLICE_BYTES  # read at once, in formats that can read a line in parts
_END_OF_DOCUMENT = b""


class FileSlice(NamedTuple):
    """The part of a file that one task reads. The task reads the documents that begin in it."""

    number: int
    file: str
    begin: int  # bytes
    end: int  # bytes


class Part(NamedTuple):
    """A document, or a part of a long one."""

    document: int  # number of the document in the slice
    head: bytes  # the beginning of the document
    sentences: list[bytes]  # UTF-8, stripped


def file_slices(files: Iterable[tuple[str, int]]) -> list[FileSlice]:
    """Divides files, paths and sizes in bytes, into numbered slices. A compressed file is one slice."""
    slices: list[FileSlice] = []
    for file, size in files:
        length = max(size, 1) if file.endswith(GZIP_SUFFIX) else SLICE_BYTES
        for begin in range(0, size, length):
            slices.append(FileSlice(len(slices), file, begin, min(begin + length, size)))
    return slices


def read_slice(
    file_slice: FileSlice, stream: IO[bytes], input_format: str, text_field: str, counts: Counter[str]
) -> Iterator[Part]:
    """Yields the documents of a slice. A document of more than MAX_DOCUMENT_BYTES is read in parts.

    Args:
      file_slice: the slice to read.
      stream: the slice's whole file, still compressed if it is a .gz.
      input_format: a key of DOCUMENT_READERS.
      text_field: the field of the text in "jsonl".
      counts: updated with the numbers of documents that were read, and dropped, by reason.
    Raises:
      InputError: the slice is not UTF-8, or the file is a damaged .gz.
    """
    end = sys.maxsize if file_slice.file.endswith(GZIP_SUFFIX) else file_slice.end
    longest = _LONGEST_LINE_BYTES if input_format == "lines" else None
    with open_decompressed(file_slice.file, stream) as decompressed:
        lines = _read_lines(decompressed, file_slice.begin, longest)
        sentences = DOCUMENT_READERS[input_format](lines, end, text_field, counts)
        try:
            yield from _group_documents(sentences, counts)
        except UnicodeDecodeError:
            decompressed.seek(0)
            check_utf8(decompressed, file_slice.file)  # raises, with the line


def _group_documents(sentences: Iterator[bytes], counts: Counter[str]) -> Iterator[Part]:
    """Groups sentences into documents, and splits long documents. An empty sentence ends a document."""
    head: bytes | None = None
    part: list[bytes] = []
    size = documents = 0
    for sentence in _split_long_sentences(sentences):
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


def _split_long_sentences(sentences: Iterator[bytes]) -> Iterator[bytes]:
    """Splits long sentences in the same places as `text_documents` does."""
    for sentence in sentences:
        if len(sentence) > MAX_SENTENCE_BYTES:
            yield from split_long_lines(tf.constant([sentence])).numpy()
        else:
            yield sentence


def _read_lines(stream: IO[bytes], begin: int, longest: int | None) -> Iterator[tuple[int, bytes]]:
    """Yields the byte position and content of each line that starts at `begin` or later.

    Lines without visible characters give b"". Lines longer than `longest` are read in parts.
    UnicodeDecodeError if a line is not UTF-8.
    """
    position = max(begin - 1, 0)
    is_continued = is_of_previous_slice = begin > 0  # whether the part belongs to a line that began before it
    if is_of_previous_slice:
        stream.seek(position)
    for part in split_lines(stream, longest):
        if not is_of_previous_slice:
            line = b"" if is_blank(part) else part.removeprefix(codecs.BOM_UTF8).strip()
            if line or not is_continued:
                yield position, line
        position += len(part)
        is_continued = not part.endswith((b"\n", b"\r"))
        is_of_previous_slice &= is_continued


def _blank_line_documents(lines: Iterator[tuple[int, bytes]], end: int) -> Iterator[bytes]:
    """Yields the sentences of "lines": one sentence per line, and blank lines between documents.

    A slice owns the documents after its first blank line, up to the first blank line after its end. The first
    slice of a file also owns the beginning of the file.
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
    lines: Iterator[tuple[int, bytes]], end: int, get_text: Callable[[bytes], str]
) -> Iterator[bytes]:
    """Yields the sentences of one document per line. Characters that UTF-8 cannot encode become "?".

    JSON can have such characters: lone surrogates.
    """
    for position, line in lines:
        if position >= end:
            return
        for sentence in split_sentences(get_text(line)):
            yield sentence.encode("utf-8", "replace")
        yield _END_OF_DOCUMENT


def _json_text(line: bytes, text_field: str, counts: Counter[str]) -> str:
    """The text in a line of JSON, or "". Lines without text are counted by reason, except blank lines."""
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


# By input format: functions of the lines, the slice's end, the text field and the counts.
DOCUMENT_READERS: dict[str, Callable[..., Iterator[bytes]]] = {
    "lines": lambda lines, end, *_: _blank_line_documents(lines, end),
    "document_per_line": lambda lines, end, *_: _line_documents(lines, end, bytes.decode),
    "jsonl": lambda lines, end, *of_json: _line_documents(lines, end, lambda x: _json_text(x, *of_json)),
}


_BYTES_PER_BATCH = 1 << 20  # tokenised together
_EXAMPLES_PER_BATCH = 64
_HEADER = struct.Struct("<16s16sIII")  # of a Document in a spill: its fields, with the length of the record


class Document(NamedTuple):
    """A document in a spill, or a part of a long one."""

    digest: bytes  # hash of the text and the seed, which decides about the shard and the position in it
    identity: bytes  # hash of the whole document and the part's position in it, the same for duplicates
    num_sentences: int
    num_tokens: int
    record: bytes


def spill_name(number: int) -> str:
    """The name of the spill file of a slice, and of the task that writes it."""
    return f"run-{number:06d}"


def write_spill(file_slice: FileSlice, plan: PreparationPlan) -> None:
    """Tokenises a slice, and writes its documents, sorted by shard and digest, and a JSON file of counts."""
    if is_finished(plan, spill_name(file_slice.number)):
        return
    counts: Counter[str] = Counter()
    by_shard: dict[str, list[Document]] = {name: [] for name in plan.shard_names}
    with tf.io.gfile.GFile(file_slice.file, "rb") as stream:
        parts = read_slice(file_slice, stream, plan.input_format, plan.text_field, counts)
        batches = group_by_size(parts, lambda part: sum(map(len, part.sentences)), _BYTES_PER_BATCH)
        tokenized = itertools.chain.from_iterable(_tokenize_parts(batch, plan, counts) for batch in batches)
        for _, group in itertools.groupby(tokenized, key=lambda part: part[0]):
            for shard, document in _add_identities(list(group)):
                by_shard[shard].append(document)
    path = plan.unfinished_path(spill_name(file_slice.number))
    slices, position = {}, 0
    with (
        atomic_output_file(path, plan.unfinished_path()) as temporary,
        tf.io.gfile.GFile(temporary, "wb") as file,
    ):
        for shard, documents in by_shard.items():
            content = b"".join(
                _HEADER.pack(*document[:4], len(document.record)) + document.record
                for document in sorted(documents)
            )
            file.write(content)
            slices[shard] = (position, len(content))
            position += len(content)
    write_output_json(f"{path}.json", {"counts": counts, "slices": slices})


def _add_identities(parts: list[tuple[int, str, Document]]) -> Iterator[tuple[str, Document]]:
    """Adds to all parts of a document their identities, which depend on the whole document."""
    whole = hashlib.blake2b(b"".join(part.digest for *_, part in parts), digest_size=16)
    for position, (_, shard, part) in enumerate(parts):
        identity = whole.copy()
        identity.update(b"%d" % position)
        yield shard, part._replace(identity=identity.digest())


def _tokenize_parts(
    batch: list[Part], plan: PreparationPlan, counts: Counter[str]
) -> Iterator[tuple[int, str, Document]]:
    """Yields each part that has tokens: the number of its document, the name of its shard, and the part."""
    texts = [b"\n".join(part.sentences) for part in batch]
    block = Documents(*map(np.array, tokenize_documents(tf.constant(texts), _fast_tokenizer(plan.tokenizer))))
    buckets = hash_bucket(tf.constant([part.head for part in batch]))
    in_eval = in_hash_range(buckets, (0.0, plan.eval_share)).numpy()
    for part, text, (tokens, lengths), bucket, is_eval in zip(
        batch, texts, iter_documents(block), buckets.numpy(), in_eval, strict=True
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
def _fast_tokenizer(tokenizer: TokenizerConfig) -> Tokenize:
    """The tokenizer without offsets, made once per process."""
    return tokenizer.open().fast_tokenizer()


def write_shard(name: str, plan: PreparationPlan, spills: int, spills_written: int) -> None:
    """Merges a shard from all spills, and writes a JSON file of its counts into the unfinished folder.

    `spills_written`, the number of spills that this run of the pipeline wrote, makes the task wait for them.
    """
    if is_finished(plan, name):
        return
    documents = sorted(document for number in range(spills) for document in _read_spill(number, name, plan))
    count = len(documents)
    if plan.dedup:
        documents = [next(same) for _, same in itertools.groupby(documents, key=lambda x: x.identity)]
    counts = {
        "documents": len(documents),
        "sentences": sum(document.num_sentences for document in documents),
        "tokens": sum(document.num_tokens for document in documents),
        "dropped_duplicate": count - len(documents),
    }
    with atomic_output_file(plan.path(name), plan.unfinished_path()) as temporary:
        with tf.io.TFRecordWriter(temporary) as file:
            for document in documents:
                file.write(document.record)
        if plan.format == "examples":
            counts["examples"] = write_examples(temporary, name, plan)
        counts[SHARD_BYTES] = tf.io.gfile.stat(temporary).length
    write_output_json(plan.unfinished_path(f"{name}.json"), counts)


def _read_spill(number: int, shard: str, plan: PreparationPlan) -> Iterator[Document]:
    """Yields the documents of a shard in a spill, in order."""
    path = plan.unfinished_path(spill_name(number))
    begin, size = read_output_json(f"{path}.json", check_spill)["slices"][shard]
    with tf.io.gfile.GFile(path, "rb") as file:
        file.seek(begin)
        content = file.read(size) if size else b""
    position = 0
    while position < size:
        digest, identity, num_sentences, num_tokens, length = _HEADER.unpack_from(content, position)
        position += _HEADER.size + length
        yield Document(digest, identity, num_sentences, num_tokens, content[position - length : position])


def make_example_builder(plan: PreparationPlan) -> ExampleBuilder:
    """Makes the ExampleBuilder for a plan; InputError if its sizes are impossible."""
    settings = ExampleSettings(seq_length=plan.seq_length, max_predictions=plan.max_predictions)
    return ExampleBuilder(plan.tokenizer.open().vocabulary, settings, _EXAMPLES_PER_BATCH)


def write_examples(path: str, shard: str, plan: PreparationPlan) -> int:
    """Replaces the documents in a file by examples, made dupe_factor times, and returns their number.

    The seed depends on the name of the shard.
    """
    seed = int.from_bytes(hashlib.blake2b(f"{plan.seed}/{shard}".encode(), digest_size=4).digest(), "little")
    builder = make_example_builder(plan)
    batches = example_batches(
        prepared_source([path]),
        builder,
        tf.distribute.InputContext(),
        epochs=1 if shard.startswith(EVAL_SHARDS) else plan.dupe_factor,
        seed=seed,
    )
    count = 0
    folder = os.path.dirname(path)  # noqa: PTH120
    with atomic_output_file(path, folder) as temporary, tf.io.TFRecordWriter(temporary) as file:
        for batch in batches.as_numpy_iterator():
            for record in encode_examples(batch, builder.vocabulary):
                file.write(record)
                count += 1
    return count
