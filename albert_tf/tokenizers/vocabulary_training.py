"""Training a vocabulary: SentencePiece with ALBERT's ids, WordPiece with BERT's pieces, byte-level BPE."""

from __future__ import annotations

import itertools
import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import tensorflow as tf
from absl import logging

from albert_tf.raw_text.checks import check_text_files
from albert_tf.raw_text.long_lines import bounded_lines, text_lines
from albert_tf.raw_text.paths import input_files
from albert_tf.tokenizer_settings import (
    BYTE_LEVEL_BPE,
    KIND,
    SENTENCEPIECE,
    TOKENIZER,
    UNCHANGED,
    WORDPIECE,
    settings_beside,
)
from albert_tf.tokenizers.kinds import KINDS, TokenIds
from albert_tf.tokenizers.subword_training import train_byte_level_bpe, train_sentencepiece, train_wordpiece
from albert_tf.utils.checks import check_choice, check_range
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import check_place, new_directory, whole_file, write_json

_TRAINERS: dict[str, Callable[..., dict[str, bytes]]] = {
    SENTENCEPIECE: train_sentencepiece,
    WORDPIECE: train_wordpiece,
    BYTE_LEVEL_BPE: train_byte_level_bpe,
}
_MAX = 10**9  # SentencePiece counts in 32 bits; of 2**31 - 1 pieces it computes without end

_LINES_PER_BATCH = 1024
_SAMPLE_EVERY = 8  # one in so many is looked at for marks
_MARKS_SHARE = 0.01  # of the letters, above which dropping them is worth a word


def train_vocabulary(
    inputs: str | os.PathLike | Iterable[str | os.PathLike],
    output: str | os.PathLike,
    vocab_size: int = 30000,
    lowercase: bool = True,
    strip_accents: bool = True,
    max_sentences: int = 10_000_000,
    report: Callable[[str], None] = logging.warning,
    kind: str = SENTENCEPIECE,
) -> TokenIds:
    """Trains a vocabulary and writes it.

    The text is normalised as the tokenizer will do it, and how is remembered in a file beside the vocabulary,
    `FILE.tokenizer.json` beside `FILE.model`. Memory of SentencePiece grows with max_sentences, of the other
    kinds with the number of different words.

    Args:
      inputs: text files (also .gz), a path, a glob or a list of them.
      output: the file, such as `spiece.model` or `vocab.txt`, or a new folder of byte-level BPE's two; it
        appears only when it is whole. Its folder is made where it is missing.
      vocab_size: number of pieces, the special ones included, V; of WordPiece and BPE at most so many.
      lowercase: as of `normalize`.
      strip_accents: as of `normalize`.
      max_sentences: of a larger corpus a random sample of this many lines is used, the same one every time;
        of SentencePiece alone.
      report: called with a line where more than a hundredth of the letters lose a mark.
      kind: "sentencepiece", by the unigram model, "wordpiece" or "byte_level_bpe"; the last one does not
        normalise.
    Raises:
      FileNotFoundError: an input does not exist.
      InputError: the text allows no vocabulary of this size, a file is not text or damaged, or a number is
        out of range.
      OSError: output cannot be written.
    """
    check_range("vocab_size", vocab_size, at_least=1, at_most=_MAX)
    check_range("max_sentences", max_sentences, above=100, at_most=_MAX)  # SentencePiece's bounds
    check_choice("kind", kind, _TRAINERS)
    output, is_folder = Path(output), kind == BYTE_LEVEL_BPE
    settings = UNCHANGED if is_folder else {"lowercase": lowercase, "strip_accents": strip_accents}
    check_place(output, is_folder=is_folder)
    _check_replaceable(output, kind)
    files = input_files(inputs)
    check_text_files(files)
    output.parent.mkdir(parents=True, exist_ok=True)
    with new_directory(output) if is_folder else whole_file(output) as temporary:
        if not is_folder:
            temporary.touch()  # an unwritable place shows now, not after an hour of training
        sentences = _sentences(files, kind, settings, report)
        if (first := next(sentences, None)) is None:
            raise InputError("the input holds no text to train a vocabulary on")
        options = {"max_sentences": max_sentences} if kind == SENTENCEPIECE else {}
        contents = _TRAINERS[kind](itertools.chain([first], sentences), vocab_size, **options)
        vocabulary = KINDS[kind].from_files(contents, **settings).vocabulary
        for name, content in contents.items():
            (temporary / name if is_folder else temporary).write_bytes(content)
        remembered = temporary / TOKENIZER if is_folder else settings_beside(output)
        write_json(remembered, {KIND: kind, **settings})
    return vocabulary


def _check_replaceable(output: Path, kind: str) -> None:
    """Refuses to write over what is not a vocabulary of the kind, such as the text."""
    try:
        _ = output.is_file() and KINDS[kind].read(output)
    except InputError:
        raise FileExistsError(f"{output} exists and is not a vocabulary: name another file") from None


def _sentences(
    files: list[str], kind: str, settings: Mapping[str, bool], report: Callable[[str], None]
) -> Iterator[bytes]:
    """The normalised lines of text files, over-long ones cut at spaces; reports the marks that they lose."""

    def normalized(text: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return text, bounded_lines(tf.strings.strip(KINDS[kind].normalize(text, **settings)))

    characters: Counter[str] = Counter()
    texts = tf.data.Dataset.from_tensor_slices(files).flat_map(text_lines).batch(_LINES_PER_BATCH)
    parts = texts.map(normalized).prefetch(2)
    for number, (raw, batch) in enumerate(parts.as_numpy_iterator()):
        if settings["strip_accents"] and number % _SAMPLE_EVERY == 0:
            characters.update(b"".join(raw.tolist()).decode("utf-8", "ignore"))
        yield from filter(None, batch)
    if (share := marks_per_letter(characters)) > _MARKS_SHARE:
        report(
            f"{share:.1%} of the letters lose their marks: where these tell words apart, train again with "
            "strip_accents=False (--nostrip_accents)"
        )


def marks_per_letter(counts: Mapping[str, int]) -> float:
    """The marks that `strip_accents` drops from a text, for each of its letters, from its characters' counts.

    >>> marks_per_letter({"e": 2, "é": 1, " ": 5, "й": 1})
    0.5
    """
    marks = letters = 0
    for character, count in counts.items():
        apart = unicodedata.normalize("NFD", character)
        marks += count * sum(unicodedata.category(part) == "Mn" for part in apart)
        letters += count * character.isalpha()
    return marks / max(letters, 1)
