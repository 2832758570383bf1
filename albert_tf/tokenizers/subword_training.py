"""Training of vocabularies: sentences to the contents of a vocabulary's files, by their names."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any

import sentencepiece
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from albert_tf.raw_text.long_lines import MAX_SENTENCE_BYTES
from albert_tf.tokenizers import byte_level_bpe, wordpiece
from albert_tf.tokenizers.input_format import ALBERT_IDS
from albert_tf.tokenizers.sentencepiece import FILE_OF_RUN, SPECIAL_PIECES
from albert_tf.utils.errors import InputError

USER_DEFINED = ("(", ")", '"', "-", ".", "–", "£", "€")


def train_sentencepiece(sentences: Iterable[bytes], vocab_size: int, max_sentences: int) -> dict[str, bytes]:
    """A SentencePiece model by the unigram model, with ALBERT's ids, from normalised sentences.

    Of more than max_sentences a random sample is used, the same one every time.

    Raises:
      InputError: the text allows no vocabulary of this size.
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
            control_symbols=list(SPECIAL_PIECES[2:]),
            user_defined_symbols=list(USER_DEFINED),
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            max_sentence_length=MAX_SENTENCE_BYTES,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]
        raise InputError(f"vocab_size={vocab_size} does not fit the text: {reason}") from None
    return {FILE_OF_RUN: model.getvalue()}


def train_wordpiece(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """A WordPiece vocabulary of at most vocab_size pieces, with BERT's special ones.

    Sentences are as `basic_words` makes them. InputError: the text's characters alone are more.
    """
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=list(wordpiece.SPECIAL_PIECES),
        continuing_subword_prefix=wordpiece.CONTINUATION,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pieces = _trained(tokenizer, trainer, sentences)["vocab"]
    ordered = sorted(pieces, key=pieces.__getitem__)
    return {wordpiece.FILE_OF_RUN: "".join(f"{piece}\n" for piece in ordered).encode()}


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
        byte_level_bpe.VOCABULARY: json.dumps(trained["vocab"], ensure_ascii=False).encode(),
        byte_level_bpe.MERGES: f"#version: 0.2\n{merges}".encode(),
    }


def _trained(tokenizer: Tokenizer, trainer: Any, sentences: Iterable[bytes]) -> dict[str, Any]:
    """The model that is trained, as it stands in the tokenizer's JSON."""
    tokenizer.train_from_iterator(map(bytes.decode, sentences), trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    if len(trained["vocab"]) > trainer.vocab_size:
        raise InputError(
            f"vocab_size={trainer.vocab_size} is too small: the characters alone need {len(trained['vocab'])}"
        )
    return trained
