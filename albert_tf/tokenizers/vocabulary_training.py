"""Training a vocabulary: SentencePiece with ALBERT's ids, WordPiece with BERT's pieces, byte-level BPE."""

from __future__ import annotations

import functools
import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import sentencepiece
import tensorflow as tf
from absl import logging

from albert_tf.raw_text.checks import check_text_files
from albert_tf.raw_text.long_lines import MAX_SENTENCE_BYTES, bounded_lines, text_lines
from albert_tf.raw_text.paths import input_files
from albert_tf.tokenizer_settings import (
    BYTE_LEVEL_BPE,
    SENTENCEPIECE,
    TOKENIZER,
    UNCHANGED,
    WORDPIECE,
    remember_settings,
    write_settings,
)
from albert_tf.tokenizers.input_format import ALBERT_IDS
from albert_tf.tokenizers.kinds import KINDS, TokenIds
from albert_tf.tokenizers.normalization import marks_per_letter, normalize
from albert_tf.tokenizers.subword_training import train_byte_level_bpe, train_wordpiece
from albert_tf.tokenizers.vocabulary import CLS, FILE_OF_RUN, MASK, SEP
from albert_tf.tokenizers.wordpiece import basic_words
from albert_tf.utils.checks import check_choice, check_range
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import check_place, new_directory, whole_file

USER_DEFINED = ("(", ")", '"', "-", ".", "–", "£", "€")
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
    Source: google-research/albert, README, and the settings stored in its 30k-clean.model.
    """
    check_range("vocab_size", vocab_size, at_least=1, at_most=_MAX)
    check_range("max_sentences", max_sentences, above=100, at_most=_MAX)  # SentencePiece's bounds
    check_choice("kind", kind, _TRAINERS)
    output, trainer = Path(output), _TRAINERS[kind]
    settings = {"lowercase": lowercase, "strip_accents": strip_accents}
    if kind == BYTE_LEVEL_BPE:
        settings = UNCHANGED
    check_place(output, is_folder=kind == BYTE_LEVEL_BPE)
    _check_replaceable(output, kind)
    files = input_files(inputs)
    check_text_files(files)
    output.parent.mkdir(parents=True, exist_ok=True)
    with new_directory(output) if kind == BYTE_LEVEL_BPE else whole_file(output) as temporary:
        if kind != BYTE_LEVEL_BPE:
            temporary.touch()  # an unwritable place shows now, not after an hour of training
        normalized = functools.partial(trainer.normalize, **settings)
        sentences = _sentences(files, normalized, settings["strip_accents"], report)
        contents = trainer.train(sentences, vocab_size, max_sentences)
        vocabulary = KINDS[kind].from_files(contents, **settings).vocabulary
        if kind == BYTE_LEVEL_BPE:
            for name, content in contents.items():
                (temporary / name).write_bytes(content)
            write_settings(temporary / TOKENIZER, settings, kind)
        else:
            (content,) = contents.values()
            temporary.write_bytes(content)
            remember_settings(output, settings, kind)
    return vocabulary


def _check_replaceable(output: Path, kind: str) -> None:
    """Refuses to write over what is not a vocabulary of the kind, such as the text."""
    try:
        _ = output.is_file() and KINDS[kind].read(output)
    except InputError:
        raise FileExistsError(f"{output} exists and is not a vocabulary: name another file") from None


def _sentences(
    files: list[str],
    normalized: Callable[[tf.Tensor], tf.Tensor],
    strip_accents: bool,
    report: Callable[[str], None],
) -> Iterator[bytes]:
    """The normalised lines of text files, over-long ones cut at spaces; tells what they lose."""
    characters: Counter[str] = Counter()
    texts = tf.data.Dataset.from_tensor_slices(files).flat_map(text_lines).batch(_LINES_PER_BATCH)
    normalised = texts.map(lambda text: (text, normalized(text)))
    parts = normalised.map(lambda text, normal: (text, bounded_lines(tf.strings.strip(normal))))
    for number, (raw, batch) in enumerate(parts.prefetch(2).as_numpy_iterator()):
        if strip_accents and number % _SAMPLE_EVERY == 0:
            characters.update(b"".join(raw.tolist()).decode("utf-8", "ignore"))
        yield from filter(None, batch)
    if (share := marks_per_letter(characters)) > _MARKS_SHARE:
        report(
            f"{share:.1%} of the letters lose their marks: where these tell words apart, train again with "
            "strip_accents=False (--nostrip_accents)"
        )


def _train_sentencepiece(
    sentences: Iterator[bytes], vocab_size: int, max_sentences: int
) -> Mapping[str, bytes]:
    """The model file that SentencePiece makes of sentences, by its name."""
    model = io.BytesIO()
    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for count, sentence in enumerate(sentences, start=1):  # noqa: B007
            yield sentence

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=counted(),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            character_coverage=0.99995,
            pad_id=ALBERT_IDS.padding,
            unk_id=ALBERT_IDS.unknown,
            bos_id=-1,
            eos_id=-1,
            control_symbols=[CLS, SEP, MASK],
            user_defined_symbols=list(USER_DEFINED),
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            max_sentence_length=MAX_SENTENCE_BYTES,
            minloglevel=2,
        )
    except RuntimeError as error:
        if count == 0:
            raise InputError("the input holds no text to train a vocabulary on") from None
        reason = str(error).rpartition("] ")[2]
        raise InputError(f"vocab_size={vocab_size} does not fit {count} lines of text: {reason}") from None
    return {FILE_OF_RUN: model.getvalue()}


class _Trainer(NamedTuple):
    """How text is normalised for a kind, and the files that are made of sentences, a size and a sample's."""

    normalize: Callable[..., tf.Tensor]
    train: Callable[[Iterator[bytes], int, int], Mapping[str, bytes]]


_TRAINERS = {
    SENTENCEPIECE: _Trainer(normalize, _train_sentencepiece),
    WORDPIECE: _Trainer(basic_words, lambda sentences, size, _: train_wordpiece(sentences, size)),
    BYTE_LEVEL_BPE: _Trainer(
        lambda text, **settings: text, lambda sentences, size, _: train_byte_level_bpe(sentences, size)
    ),
}
