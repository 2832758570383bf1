"""Training a vocabulary: SentencePiece with ALBERT's ids, WordPiece with BERT's pieces, byte-level BPE."""

from __future__ import annotations

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
from albert_tf.io import check_place, new_directory, whole_file, write_local_json
from albert_tf.text import byte_level_bpe, wordpiece
from albert_tf.text.files import check_text_files, input_files, open_decompressed
from albert_tf.text.lines import MAX_SENTENCE_BYTES, bounded_lines, group_by_size, split_lines
from albert_tf.text.sentencepiece import SENTENCEPIECE_FILE, SENTENCEPIECE_SPECIAL_TOKENS
from albert_tf.text.text_tokenizer import ALBERT_IDS
from albert_tf.text.tokenizer import TOKENIZER_CLASSES, Vocabulary
from albert_tf.text.tokenizer_config import (
    BYTE_LEVEL_BPE,
    SENTENCEPIECE,
    TOKENIZER_FILE,
    TOKENIZER_KIND,
    UNCHANGED,
    WORDPIECE,
    read_settings_beside,
)

USER_DEFINED = ("(", ")", '"', "-", ".", "–", "£", "€")
_MAX = 10**9  # SentencePiece counts in 32 bits; of 2**31 - 1 pieces it computes without end

_BYTES_PER_BATCH = 1 << 16
_SECONDS_TO_END = 2
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
) -> Vocabulary:
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
      InputError: the text allows no vocabulary of this size, a file is missing, damaged or not text, or a
        number is out of range.
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
        train = functools.partial(_TRAINERS[kind], vocab_size=vocab_size, **options)
        contents = _train(train, itertools.chain([first], sentences))
        vocabulary = TOKENIZER_CLASSES[kind].vocabulary_class(contents)
        for name, content in contents.items():
            (temporary / name if is_folder else temporary).write_bytes(content)
        remembered = temporary / TOKENIZER_FILE if is_folder else read_settings_beside(output)
        write_local_json(remembered, {TOKENIZER_KIND: kind, **settings})
    return vocabulary


def _check_replaceable(output: Path, kind: str) -> None:
    """Refuses to write over what is not a vocabulary of the kind, such as the text; logs what is replaced."""
    try:
        if output.is_file():
            TOKENIZER_CLASSES[kind].vocabulary_class.from_file(output)
            logging.info("replaces %s", output)
    except InputError:
        raise FileExistsError(f"{output} exists and is not a vocabulary: name another file") from None


def _train(train: Callable[[Iterator[bytes]], dict[str, bytes]], sentences: Iterator[bytes]) -> Any:
    """What a trainer makes of sentences, in a thread: the main one answers SIGTERM while it computes.

    Errors of the sentences are raised as they are, whatever the trainer takes them for.
    """
    errors: list[BaseException] = []
    is_over = threading.Event()
    result: Future[dict[str, bytes]] = Future()

    def read() -> Iterator[bytes]:
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
            result.set_result(train(read()))
        except Exception as error:
            result.set_exception(errors[0] if errors else error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        return result.result()
    finally:
        is_over.set()
        thread.join(_SECONDS_TO_END)  # one that reads ends at once; one that computes is left alone


def _sentences(
    files: list[str], kind: str, settings: Mapping[str, bool], report: Callable[[str], None]
) -> Iterator[bytes]:
    """The normalised lines of text files, over-long ones cut at spaces; reports the marks that they lose."""
    characters: Counter[str] = Counter()
    for number, raw in enumerate(group_by_size(_lines(files), len, _BYTES_PER_BATCH)):
        if settings["strip_accents"] and number % _SAMPLE_EVERY == 0:
            characters.update(b"".join(raw).decode("utf-8", "ignore"))
        # Cut before, since the time may grow with the square of a line, and after, since text may grow.
        text = TOKENIZER_CLASSES[kind].normalize(bounded_lines(tf.constant(raw)), **settings)
        yield from filter(None, bounded_lines(tf.strings.strip(text)).numpy())
    if (share := marks_per_letter(characters)) > _MARKS_SHARE:
        report(
            f"{share:.1%} of the letters lose their marks: where these tell words apart, train again with "
            "strip_accents=False (--nostrip_accents)"
        )


def _lines(files: Iterable[str]) -> Iterator[bytes]:
    for file in files:
        with tf.io.gfile.GFile(file, "rb") as stored, open_decompressed(file, stored) as opened:
            yield from split_lines(opened, _BYTES_PER_BATCH)


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


def train_sentencepiece(sentences: Iterable[bytes], vocab_size: int, max_sentences: int) -> dict[str, bytes]:
    """A SentencePiece model by the unigram model, with ALBERT's ids, from normalised sentences.

    Of more than max_sentences a random sample is used, the same one every time. An InputError says that the
    text allows no vocabulary of this size.
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
        # Its remedies are options that are none of ours.
        if most := re.search(r"<= (\d+)", str(error)):
            reason = f"is too large: the text allows {most[1]} at most"
        elif needed := re.search(r"\d+ vs (\d+)", str(error)):
            reason = f"is too small: the characters alone need {needed[1]}"
        else:
            reason = f"does not fit the text: {str(error).rpartition('] ')[2].partition('. ')[0]}"
        raise InputError(f"vocab_size={vocab_size} {reason}") from None
    return {SENTENCEPIECE_FILE: model.getvalue()}


def train_wordpiece(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """A WordPiece vocabulary of at most vocab_size pieces, with BERT's special ones.

    Sentences are as `basic_words` makes them. InputError: the text's characters alone are more.
    """
    counts = Counter(word for sentence in sentences for word in sentence.decode().split())
    # The trainer numbers these in the order of a hash table, another one each time, unless they are known.
    inside = sorted({wordpiece.CONTINUATION + character for word in counts for character in word[1:]})
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=[*wordpiece.WORDPIECE_SPECIAL_TOKENS, *inside],
        continuing_subword_prefix=wordpiece.CONTINUATION,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    repeated = (f"{word} ".encode() * count for word, count in counts.items())
    ids = _trained(tokenizer, trainer, repeated)["vocab"]
    lines = (f"{piece}\n" for piece in sorted(ids, key=ids.__getitem__))
    return {wordpiece.WORDPIECE_FILE: "".join(lines).encode()}


def train_byte_level_bpe(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """A byte-level BPE vocabulary of at most vocab_size tokens, RoBERTa's special ones at their ids included.

    InputError: vocab_size is less than those and the 256 bytes.
    """
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=byte_level_bpe.byte_characters(),
    )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained = _trained(tokenizer, trainer, sentences)
    merges = "".join(f"{left} {right}\n" for left, right in trained["merges"])
    return {
        byte_level_bpe.BPE_VOCABULARY_FILE: json.dumps(trained["vocab"], ensure_ascii=False).encode(),
        byte_level_bpe.BPE_MERGES_FILE: f"#version: 0.2\n{merges}".encode(),
    }


def _trained(tokenizer: Tokenizer, trainer: Any, sentences: Iterable[bytes]) -> dict[str, Any]:
    """The model that is trained, as it stands in the tokenizer's JSON."""
    tokenizer.train_from_iterator(map(bytes.decode, sentences), trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    if (count := len(trained["vocab"])) > trainer.vocab_size:
        raise InputError(f"vocab_size={trainer.vocab_size} is too small: the characters alone need {count}")
    return trained


_TRAINERS: dict[str, Callable[..., dict[str, bytes]]] = {
    SENTENCEPIECE: train_sentencepiece,
    WORDPIECE: train_wordpiece,
    BYTE_LEVEL_BPE: train_byte_level_bpe,
}
