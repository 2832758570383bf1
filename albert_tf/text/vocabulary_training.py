"""Training a vocabulary: SentencePiece with ALBERT's ids, WordPiece with BERT's pieces, byte-level BPE."""

from __future__ import annotations

import codecs
import functools
import io
import itertools
import json
import os
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any

import sentencepiece
import tensorflow as tf
from absl import logging
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from albert_tf.errors import InputError, check_choice, check_range
from albert_tf.io import atomic_file, check_output_path, new_local_folder, write_local_json
from albert_tf.text import byte_level_bpe, wordpiece
from albert_tf.text.files import check_text_files, input_files, open_decompressed
from albert_tf.text.lines import MAX_SENTENCE_BYTES, group_by_size, split_lines, split_long_lines
from albert_tf.text.sentencepiece import SENTENCEPIECE_FILE, SENTENCEPIECE_SPECIAL_TOKENS
from albert_tf.text.text_tokenizer import ALBERT_IDS
from albert_tf.text.tokenizer import TOKENIZER_CLASSES, Vocabulary
from albert_tf.text.tokenizer_config import (
    BYTE_LEVEL_BPE,
    NO_NORMALIZATION,
    SENTENCEPIECE,
    TOKENIZER_FILE,
    TOKENIZER_KIND,
    WORDPIECE,
    tokenizer_settings_path,
)

USER_DEFINED = ("(", ")", '"', "-", ".", "–", "£", "€")
_MAX = 10**9  # SentencePiece counts in 32 bits; with 2**31 - 1 pieces it never ends

_BYTES_PER_BATCH = 1 << 16
_SECONDS_TO_END = 2
_SAMPLE_EVERY = 8  # marks are counted in one of this many batches
_MARKS_SHARE = 0.01  # marks per letter; a larger share is reported when they are dropped


def train_vocabulary(
    inputs: str | os.PathLike | Iterable[str | os.PathLike],
    output: str | os.PathLike,
    vocab_size: int = 30000,
    lowercase: bool = True,
    strip_accents: bool = True,
    max_sentences: int = 10_000_000,
    report: Callable[[str], None] = logging.warning,
    kind: str = SENTENCEPIECE,
) -> Vocabulary:
    """Trains a vocabulary and writes it.

    The text is normalised as the tokenizer does it. A file beside the vocabulary stores these settings:
    `FILE.tokenizer.json` beside `FILE.model`. SentencePiece's memory grows with max_sentences, that of the
    other kinds with the number of different words.

    Args:
      inputs: text files (also .gz): a path, a glob or a list of them.
      output: the file, such as `spiece.model` or `vocab.txt`, or a new folder for byte-level BPE's two files.
        It appears only when it is complete. Its parent folder is created if it is missing.
      vocab_size: number of pieces, V, with the special ones; WordPiece and BPE may have fewer.
      lowercase: True to fold case.
      strip_accents: True to drop accents and other combining marks.
      max_sentences: number of lines of a larger corpus that are used, a random sample that is the same every
        time; for SentencePiece only.
      report: called with one line if more than a hundredth of the letters lose a mark.
      kind: "sentencepiece" (its unigram model), "wordpiece" or "byte_level_bpe", which does not normalise.
    Returns:
      The vocabulary.
    Raises:
      InputError: the text allows no vocabulary of this size, a file is missing, damaged or not text, or a
        number is out of range.
      OSError: output cannot be written.
    """
    check_range("vocab_size", vocab_size, at_least=1, at_most=_MAX)
    check_range("max_sentences", max_sentences, above=100, at_most=_MAX)  # SentencePiece's bounds
    check_choice("kind", kind, _TRAINERS)
    output, is_folder = Path(output), kind == BYTE_LEVEL_BPE
    settings = NO_NORMALIZATION if is_folder else {"lowercase": lowercase, "strip_accents": strip_accents}
    check_output_path(output, is_folder=is_folder)
    _check_replaceable(output, kind)
    files = input_files(inputs)
    check_text_files(files)
    output.parent.mkdir(parents=True, exist_ok=True)
    with new_local_folder(output) if is_folder else atomic_file(output) as temporary:
        if not is_folder:
            temporary.touch()  # an unwritable place shows now, not after an hour of training
        sentences = _read_normalized_lines(files, kind, settings, report)
        if (first := next(sentences, None)) is None:
            raise InputError("the input holds no text to train a vocabulary on")
        options = {"max_sentences": max_sentences} if kind == SENTENCEPIECE else {}
        train = functools.partial(_TRAINERS[kind], vocab_size=vocab_size, **options)
        contents = _run_in_thread(train, itertools.chain([first], sentences))
        vocabulary = TOKENIZER_CLASSES[kind].vocabulary_class(contents)
        for name, content in contents.items():
            (temporary / name if is_folder else temporary).write_bytes(content)
        settings_path = temporary / TOKENIZER_FILE if is_folder else tokenizer_settings_path(output)
        write_local_json(settings_path, {TOKENIZER_KIND: kind, **settings})
    return vocabulary


def _check_replaceable(output: Path, kind: str) -> None:
    """Raises FileExistsError if `output` exists and is no vocabulary of the kind; logs a replacement."""
    try:
        if output.is_file():
            TOKENIZER_CLASSES[kind].vocabulary_class.from_file(output)
            logging.info("replaces %s", output)
    except InputError:
        raise FileExistsError(f"{output} exists and is not a vocabulary: name another file") from None


def _run_in_thread(train: Callable[[Iterator[bytes]], dict[str, bytes]], sentences: Iterator[bytes]) -> Any:
    """Returns `train(sentences)`, run in a thread so that the main thread can handle SIGTERM meanwhile.

    An error of `sentences` is raised unchanged, even if the trainer turns it into another one.
    """
    errors: list[BaseException] = []
    is_over = threading.Event()
    result: Future[dict[str, bytes]] = Future()

    def read_sentences() -> Iterator[bytes]:
        try:
            for sentence in sentences:
                if is_over.is_set():
                    raise CancelledError
                yield sentence
        except Exception as error:
            errors.append(error)
            raise

    def work() -> None:
        try:
            result.set_result(train(read_sentences()))
        except Exception as error:
            result.set_exception(errors[0] if errors else error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        return result.result()
    finally:
        is_over.set()
        thread.join(_SECONDS_TO_END)  # a thread that reads ends at once; one that computes is left running


def _read_normalized_lines(
    files: list[str], kind: str, settings: Mapping[str, bool], report: Callable[[str], None]
) -> Iterator[bytes]:
    """The normalised lines of text files, with long lines cut; reports if many letters lose their marks."""
    characters: Counter[str] = Counter()
    for number, lines in enumerate(group_by_size(_read_lines(files), len, _BYTES_PER_BATCH)):
        if settings["strip_accents"] and number % _SAMPLE_EVERY == 0:
            characters.update(b"".join(lines).decode("utf-8", "ignore"))
        # Cut before, since the time may grow with the square of a line, and after, since text may grow.
        text = TOKENIZER_CLASSES[kind].normalize(split_long_lines(tf.constant(lines)), **settings)
        yield from filter(None, split_long_lines(tf.strings.strip(text)).numpy())
    if (share := marks_per_letter(characters)) > _MARKS_SHARE:
        report(
            f"{share:.1%} of the letters lose their marks: where these tell words apart, train again with "
            "strip_accents=False (--nostrip_accents)"
        )


def _read_lines(files: Iterable[str]) -> Iterator[bytes]:
    for file in files:
        with tf.io.gfile.GFile(file, "rb") as stored, open_decompressed(file, stored) as stream:
            for line in split_lines(stream, _BYTES_PER_BATCH):
                yield line.removeprefix(codecs.BOM_UTF8)


def marks_per_letter(counts: Mapping[str, int]) -> float:
    """The number of marks per letter that `strip_accents` drops from a text with these character counts.

    >>> marks_per_letter({"e": 2, "é": 1, " ": 5, "й": 1})
    0.5
    """
    marks = letters = 0
    for character, count in counts.items():
        decomposed = unicodedata.normalize("NFD", character)
        marks += count * sum(unicodedata.category(part) == "Mn" for part in decomposed)
        letters += count * character.isalpha()
    return marks / max(letters, 1)


def train_sentencepiece(sentences: Iterable[bytes], vocab_size: int, max_sentences: int) -> dict[str, bytes]:
    """Trains a SentencePiece unigram model with ALBERT's ids on normalised sentences.

    If there are more than max_sentences, a random sample is used, the same one every time. InputError means
    that the text allows no vocabulary of this size.
    Source: google-research/albert, README, and the settings stored in its 30k-clean.model.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            character_coverage=0.99995,
            pad_id=ALBERT_IDS.padding,
            unk_id=ALBERT_IDS.unknown,
            bos_id=-1,
            eos_id=-1,
            control_symbols=list(SENTENCEPIECE_SPECIAL_TOKENS[2:]),
            user_defined_symbols=list(USER_DEFINED),
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            max_sentence_length=MAX_SENTENCE_BYTES,
            minloglevel=2,
        )
    except RuntimeError as error:
        # SentencePiece's message advises options that users cannot set here.
        if most := re.search(r"<= (\d+)", str(error)):
            reason = f"is too large: the text allows {most[1]} at most"
        elif needed := re.search(r"\d+ vs (\d+)", str(error)):
            reason = f"is too small: the characters alone need {needed[1]}"
        else:
            reason = f"does not fit the text: {str(error).rpartition('] ')[2].partition('. ')[0]}"
        raise InputError(f"vocab_size={vocab_size} {reason}") from None
    return {SENTENCEPIECE_FILE: model.getvalue()}


_REPEATED = 1000  # most repetitions of a word that the trainer gets at once, which bounds its memory


def train_wordpiece(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """Trains a WordPiece vocabulary of at most vocab_size pieces, with BERT's special ones.

    The sentences must come from `basic_words`. Words too long to be pieces are left out. InputError means
    that the characters alone are more.
    """
    counts = Counter(word for sentence in sentences for word in sentence.decode().split())
    longest = wordpiece.LONGEST_PIECE - len(wordpiece.CONTINUATION)  # bytes
    counts = Counter({word: count for word, count in counts.items() if len(word.encode()) <= longest})
    # If these are not given, the trainer numbers them in the random order of a hash table.
    inside = sorted({wordpiece.CONTINUATION + character for word in counts for character in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=[*wordpiece.WORDPIECE_SPECIAL_TOKENS, *inside],
        continuing_subword_prefix=wordpiece.CONTINUATION,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    repeated = (
        f"{word} ".encode() * min(_REPEATED, count - begin)
        for word, count in counts.items()
        for begin in range(0, count, _REPEATED)
    )
    ids = _train_tokenizer(tokenizer, trainer, repeated)["vocab"]
    lines = (f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__))
    return {wordpiece.WORDPIECE_FILE: "".join(lines).encode()}


def train_byte_level_bpe(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """Trains a byte-level BPE vocabulary of at most vocab_size tokens, with RoBERTa's special ones and ids.

    InputError means that vocab_size has no room for the special tokens and the 256 bytes.
    """
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=byte_level_bpe.byte_characters(),
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model = _train_tokenizer(tokenizer, trainer, sentences)
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    return {
        byte_level_bpe.BPE_VOCABULARY_FILE: json.dumps(model["vocab"], ensure_ascii=False).encode(),
        byte_level_bpe.BPE_MERGES_FILE: f"#version: 0.2\n{merges}".encode(),
    }


def _train_tokenizer(tokenizer: Tokenizer, trainer: Any, sentences: Iterable[bytes]) -> dict[str, Any]:
    """Trains the tokenizer and returns the model in its JSON; InputError if vocab_size is too small."""
    tokenizer.train_from_iterator(map(bytes.decode, sentences), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    if (count := len(model["vocab"])) > trainer.vocab_size:
        raise InputError(f"vocab_size={trainer.vocab_size} is too small: the characters alone need {count}")
    return model


_TRAINERS: dict[str, Callable[..., dict[str, bytes]]] = {
    SENTENCEPIECE: train_sentencepiece,
    WORDPIECE: train_wordpiece,
    BYTE_LEVEL_BPE: train_byte_level_bpe,
}
