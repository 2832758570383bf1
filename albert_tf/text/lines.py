"""Lines and sentences of raw text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeVar

import tensorflow as tf

_Item = TypeVar("_Item")


def group_by_size(
    items: Iterable[_Item], size_of: Callable[[_Item], int], size: int
) -> Iterator[list[_Item]]:
    """Groups items into lists; a list ends when the sum of its items' sizes reaches `size`.

    The last list may be smaller.

    >>> list(group_by_size(["a", "bcd", "e", "f"], len, 3))
    [['a', 'bcd'], ['e', 'f']]
    """
    group, sum_of_sizes = list[_Item](), 0
    for item in items:
        group.append(item)
        sum_of_sizes += size_of(item)
        if sum_of_sizes >= size:
            yield group
            group, sum_of_sizes = [], 0
    if group:
        yield group


MAX_SENTENCE_BYTES = 4192  # SentencePiece's training skips longer sentences
PART_BYTES = 1024  # a longer sentence is cut into parts of this size, half an example of 512 tokens

_BLOCK_BYTES = 1 << 20
# The spaces of Python's `str.isspace`, and the invisible characters U+200B and U+FEFF.
_BLANKS = r"\t-\r\x1C-\x20\x85\xA0\u1680\u2000-\u200B\u2028\u2029\u202F\u205F\u3000\uFEFF"
_BLANK = re.compile(f"[{_BLANKS}]*")
_NO_BYTE_OF_TEXT = b"\xfd"  # occurs in no UTF-8 text, and `check_text_files` has checked the files


def without_autotuning(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """A dataset that ends at once.

    With autotuning, the end of about every fourth iterator waits for the tuner's next round. The rounds take
    0.01, 0.02, 0.04, … seconds, at most 60, so that an evaluation of 2.7 seconds took 5.2.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def text_lines(file: tf.Tensor | str) -> tf.data.Dataset:
    """The lines of a text file, string scalars; a file whose name ends in `.gz` is decompressed.

    Lines end at LF, CR or CR LF, as with Python's universal newlines.
    """
    # A damaged `.gz` would silently end early: see check_text_files.
    is_compressed = tf.strings.regex_full_match(file, r"(?s).*\.gz")
    # A table of one column, since `TextLineDataset` deletes CRs and so joins the words around them.
    table = tf.data.experimental.CsvDataset(
        file,
        [tf.constant("")],
        compression_type=tf.where(is_compressed, "GZIP", ""),
        field_delim=_NO_BYTE_OF_TEXT,
        use_quote_delim=False,
    )
    return table.map(lambda line: line)


def split_lines(stream: IO[bytes], longest: int | None = None) -> Iterator[bytes]:
    """The lines of a stream in UTF-8, with their line ends: LF, CR or CR LF.

    Args:
      stream: the bytes.
      longest: a line of more bytes may come in parts. Only the last part has a line end; the others are cut
        before a space or, if there is none, before a character. None: all lines are whole.
    """
    line = b""
    while block := stream.read(max(_BLOCK_BYTES, len(line))):
        lines = (line + block).splitlines(keepends=True)
        # The last line may go on in the next block; its CR may be the first half of a CR LF.
        line = b"" if lines[-1].endswith(b"\n") else lines.pop()
        yield from lines
        if longest is not None and len(line) > longest:
            starts = (n for n in range(len(line) - 1, len(line) - 5, -1) if line[n] & 0xC0 != 0x80)
            cut = max(line.rfind(b" "), 0) or next(starts, len(line))
            yield line[:cut]
            line = line[cut:]
    if line:
        yield line


def is_blank(line: bytes) -> bool:
    """True if a line in UTF-8 holds nothing but spaces of Unicode, U+FEFF and U+200B."""
    return _BLANK.fullmatch(line.decode()) is not None


def strip_lines(lines: tf.Tensor) -> tf.Tensor:
    """Lines, string [n], without the whitespace around them; a line that `is_blank` becomes "".

    A byte order mark at a line's beginning is dropped, too: byte-level BPE would make tokens of it.
    """
    blanks = re.sub(r"\\u(....)", r"\\x{\1}", _BLANKS)  # the syntax of TensorFlow's regular expressions
    return tf.strings.strip(tf.strings.regex_replace(lines, rf"\A[{blanks}]*\z|\A\x{{FEFF}}", ""))


# A tf.function is traced once, not in every pipeline.
@tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
def split_long_lines(lines: tf.Tensor) -> tf.Tensor:
    """Splits lines of more than MAX_SENTENCE_BYTES into parts of at most PART_BYTES, string [n] to [m].

    A part ends at the last space that fits or, if there is none, at the end of a character. Parts have no
    whitespace around them. Other lines, also blank ones, are unchanged. Without this, one line could hold its
    pipeline up for minutes.
    """
    too_long = tf.strings.length(lines) > MAX_SENTENCE_BYTES
    return tf.cond(tf.reduce_any(too_long), lambda: _replace_by_parts(lines, too_long), lambda: lines)


def _replace_by_parts(lines: tf.Tensor, too_long: tf.Tensor) -> tf.Tensor:
    """Lines, string [n] to [m], with each line that is too long replaced by its parts."""
    parts = _split_into_parts(tf.boolean_mask(lines, too_long))  # [K, l]
    places = tf.where(parts != "")  # [parts, 2]
    numbers = tf.gather(tf.where(too_long)[:, 0], places[:, 1])  # [parts], the line of each
    numbers = tf.concat([tf.where(~too_long)[:, 0], numbers], axis=0)  # [m]
    texts = tf.concat([tf.boolean_mask(lines, ~too_long), tf.gather_nd(parts, places)], axis=0)
    return tf.gather(texts, tf.argsort(numbers, stable=True))


def _split_into_parts(lines: tf.Tensor) -> tf.Tensor:
    """The parts of lines, string [l] to [K, l], filled up with ""."""
    lengths = tf.strings.length(lines)
    sizes = tf.fill(tf.shape(lines), PART_BYTES + 1)

    def is_unfinished(number: tf.Tensor, begins: tf.Tensor, parts: tf.TensorArray) -> tf.Tensor:
        return tf.reduce_any(begins < lengths)

    def write_part(number: tf.Tensor, begins: tf.Tensor, parts: tf.TensorArray) -> tuple[Any, ...]:
        heads = _first_parts(tf.strings.substr(lines, begins, sizes))
        return number + 1, begins + tf.strings.length(heads), parts.write(number, tf.strings.strip(heads))

    parts = tf.TensorArray(tf.string, 0, dynamic_size=True, element_shape=[None])
    *_, parts = tf.while_loop(is_unfinished, write_part, (tf.constant(0), tf.zeros_like(lengths), parts))
    return parts.stack()


def _first_parts(texts: tf.Tensor) -> tf.Tensor:
    """The first part of each text: at most PART_BYTES, up to the last space that fits."""
    before_space = tf.strings.regex_replace(texts, r"^(\C+) \C*$", r"\1")
    whole_characters = tf.strings.length(texts, unit="UTF8_CHAR") - 1  # the last one may be cut in two
    first = tf.zeros_like(whole_characters)
    characters = tf.strings.substr(texts, first, tf.maximum(whole_characters, 0), unit="UTF8_CHAR")
    fits = (characters != "") & (tf.strings.length(characters) <= PART_BYTES)
    bytes_ = tf.strings.substr(texts, 0, PART_BYTES)  # for bytes that are not UTF-8
    heads = tf.where(before_space != texts, before_space, tf.where(fits, characters, bytes_))
    return tf.where(tf.strings.length(texts) <= PART_BYTES, texts, heads)


# Words in lower case whose full stop ends no sentence; that of a single letter (an initial) does not either.
_ABBREVIATIONS = """
mr mrs ms dr prof rev hon st jr sr gen col capt lt sgt gov sen rep pres messrs mt ft no nos vol vols
fig figs ed eds pp art sec ch cf al ca approx dept univ inc ltd corp co bros vs etc e.g i.e viz jan
feb mar apr jun jul aug sep sept oct nov dec u.s u.k
"""
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())
# These do end sentences when a capital follows.
_MAY_END = frozenset(["etc", "inc", "ltd", "corp", "co", "jr", "sr", "al"])

_CLOSING = "\"'”’»)\\]"
_OPENING = "\"'“‘«(\\["
# The end of a sentence and the space after it, or a full stop of a script that writes no spaces.
_END = re.compile(rf"(?<=[.!?…])[{_CLOSING}]*\s+|(?<=[。！？])[”’」』）]*\s*|[\r\n]\s*")
_LAST_WORD = re.compile(r"(\S+)\.$")
_GOES_ON = re.compile(rf"[{_OPENING}]*[^\W\d_]")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the whitespace around them.

    A sentence ends at a line's end (LF or CR), and at . ! ? … with closing quotes and brackets, unless a
    small letter follows. The full stop of an initial or an abbreviation usually ends no sentence.

    >>> split_sentences('Mr. Smith left at 5 p.m. on Monday. "Why?" asked J. Doe. 他走了。真的！')
    ['Mr. Smith left at 5 p.m. on Monday.', '"Why?" asked J. Doe.', '他走了。', '真的！']
    """
    sentences, begin = [], 0
    for end in _END.finditer(text):
        if _is_sentence_end(text, begin, end):
            sentences.append(text[begin : end.end()].strip())
            begin = end.end()
    sentences.append(text[begin:].strip())
    return [sentence for sentence in sentences if sentence]


def _is_sentence_end(text: str, begin: int, end: re.Match[str]) -> bool:
    """True if the match `end` is the end of the sentence that starts at `begin`."""
    if "\n" in end[0] or "\r" in end[0] or end.end() == len(text) or text[end.start() - 1] in "。！？":
        return True
    following = _GOES_ON.match(text, end.end())
    if following and following[0][-1].islower():
        return False
    if text[end.start() - 1] != "." or end[0][0] in "\"'”’»":
        return True
    last_word = _LAST_WORD.search(text, max(begin, end.start() - 40), end.start())
    word = last_word[1].lstrip("\"'“‘«([").lower() if last_word else ""
    if len(word) == 1 and word.isalpha() and word != "i":
        return False
    return word not in ABBREVIATIONS or (word in _MAY_END and following is not None)
