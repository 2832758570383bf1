"""Training of vocabularies: sentences to the contents of a vocabulary's files, by their names."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import sentencepiece

from albert_tf.raw_text.long_lines import MAX_SENTENCE_BYTES
from albert_tf.tokenizers import byte_level_bpe, vocabulary, wordpiece
from albert_tf.tokenizers.input_format import ALBERT_IDS
from albert_tf.utils.errors import InputError

USER_DEFINED = ("(", ")", '"', "-", ".", "–", "£", "€")


def train_sentencepiece(sentences: Iterable[bytes], vocab_size: int, max_sentences: int) -> dict[str, bytes]:
    """A SentencePiece model by the unigram model, with ALBERT's ids.

    Args:
      sentences: normalised, in UTF-8.
      vocab_size: pieces, the special ones included.
      max_sentences: of more a random sample is used, the same one every time.
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
            control_symbols=[vocabulary.CLS, vocabulary.SEP, vocabulary.MASK],
            user_defined_symbols=list(USER_DEFINED),
            input_sentence_size=max_sentences,
            shuffle_input_sentence=True,
            max_sentence_length=MAX_SENTENCE_BYTES,
            minloglevel=2,
        )
    except RuntimeError as error:
        reason = str(error).rpartition("] ")[2]
        raise InputError(f"vocab_size={vocab_size} does not fit the text: {reason}") from None
    return {vocabulary.FILE_OF_RUN: model.getvalue()}


def train_wordpiece(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """A WordPiece vocabulary with BERT's special pieces.

    Args:
      sentences: in UTF-8, as `basic_words` makes them: their words stand between spaces.
      vocab_size: pieces at most, the special ones included.
    Raises:
      InputError: the text's characters alone are more.
    """
    from tokenizers import models, pre_tokenizers, trainers

    pieces = _trained(
        models.WordPiece(unk_token="[UNK]"),
        pre_tokenizers.WhitespaceSplit(),
        trainers.WordPieceTrainer,
        sentences,
        vocab_size,
        special_tokens=list(wordpiece.SPECIAL_PIECES),
        continuing_subword_prefix=wordpiece.CONTINUATION,
    )["vocab"]
    ordered = sorted(pieces, key=pieces.__getitem__)
    return {wordpiece.FILE_OF_RUN: "".join(f"{piece}\n" for piece in ordered).encode()}


def train_byte_level_bpe(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """A byte-level BPE vocabulary with RoBERTa's special tokens at its ids.

    Args:
      sentences: lines of text in UTF-8.
      vocab_size: tokens at most, the special ones and those of the 256 bytes included.
    Raises:
      InputError: vocab_size is too small.
    """
    from tokenizers import models, pre_tokenizers, trainers

    trained = _trained(
        models.BPE(),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        trainers.BpeTrainer,
        sentences,
        vocab_size,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=byte_level_bpe.byte_characters(),
    )
    merges = "".join(f"{left} {right}\n" for left, right in trained["merges"])
    return {
        byte_level_bpe.VOCABULARY: json.dumps(trained["vocab"], ensure_ascii=False).encode(),
        byte_level_bpe.MERGES: f"#version: 0.2\n{merges}".encode(),
    }


def _trained(
    model: Any,
    pre_tokenizer: Any,
    trainer: Callable[..., Any],
    sentences: Iterable[bytes],
    vocab_size: int,
    **options: Any,
) -> dict[str, Any]:
    """The model that tokenizers trains, as it stands in its JSON."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(
        map(bytes.decode, sentences), trainer(vocab_size=vocab_size, show_progress=False, **options)
    )
    trained = json.loads(tokenizer.to_str())["model"]
    if len(trained["vocab"]) > vocab_size:
        raise InputError(
            f"vocab_size={vocab_size} is too small: the characters alone need {len(trained['vocab'])}"
        )
    return trained
