"""Training of vocabularies of WordPiece and byte-level BPE, by Hugging Face's tokenizers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from albert_tf.tokenizers import byte_level_bpe, wordpiece
from albert_tf.utils.errors import InputError


def train_wordpiece(sentences: Iterable[bytes], vocab_size: int) -> dict[str, bytes]:
    """A WordPiece vocabulary with BERT's special pieces.

    Args:
      sentences: in UTF-8, as `basic_words` makes them: their words stand between spaces.
      vocab_size: pieces at most, the special ones included.
    Returns:
      The content of `vocab.txt` by its name.
    Raises:
      InputError: there is no text, or its characters alone are more.
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
    Returns:
      The contents of `vocab.json` and `merges.txt` by their names.
    Raises:
      InputError: there is no text, or vocab_size is too small.
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
    without_text = len(options["special_tokens"]) + len(options.get("initial_alphabet", ()))
    if len(trained["vocab"]) <= without_text < vocab_size:
        raise InputError("the input holds no text to train a vocabulary on")
    if len(trained["vocab"]) > vocab_size:
        raise InputError(
            f"vocab_size={vocab_size} is too small: the characters alone need {len(trained['vocab'])}"
        )
    return trained
