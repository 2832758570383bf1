"""The preprocessor as an exported module: text to the encoder's inputs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.text.packing import pack
from albert_tf.text.text_tokenizer import InputFormat, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer, Vocabulary
from hub_export.module import Module

TEXT_SPEC = tf.TensorSpec([None], tf.string, "text")


class Preprocessor(Module):
    """Text to the encoder's inputs, and its steps as parts; `training` and `mask` change nothing.

    Its parts: `tokenize` is from string [B] to int32 [B, (tokens)], of WordPiece [B, (words), (tokens)],
    without special tokens; `tokenize_with_offsets` also gives the first byte of each token and the byte after
    its last, int64; `get_special_tokens_dict` of both has the ids of the special tokens and the vocabulary's
    size; `bert_pack_inputs` packs tokens. Each part works and can be saved without the others.

    Args:
      tokenizer: text to token ids.
      seq_length: length S of the inputs where the caller names none, in tokens.
    """

    def __init__(self, tokenizer: TextTokenizer, seq_length: int = 128):
        super().__init__()
        self._tokenizer, self._seq_length = tokenizer, seq_length
        self._input_format = tokenizer.vocabulary.input_format
        self.tokenize = Tokenization(tokenizer, tokenizer.tokenize_words)
        self.tokenize_with_offsets = Tokenization(
            tokenizer, lambda text: list(tokenizer.tokenize_words_with_offsets(text))
        )
        self.bert_pack_inputs = bert_pack_inputs(seq_length, self._input_format)
        for training in (False, True):
            self.__call__.get_concrete_function(TEXT_SPEC, training)

    @tf.function
    def __call__(self, text: tf.Tensor, training: bool = False, mask: None = None) -> dict[str, tf.Tensor]:
        """Each text as one segment: string [B] to int32 [B, S] by name."""
        text = self._tokenizer.shorten_text(ensure_text_batch(text), self._seq_length)
        return pack([self.tokenize(text)], self._seq_length, self._input_format)


class Tokenization(Module):
    """A part of a preprocessor that makes tokens of texts, by a function of its tokenizer."""

    def __init__(self, tokenizer: TextTokenizer, tokenize: Callable[[tf.Tensor], Any]):
        super().__init__()
        self._tokenizer = tokenizer  # whose resources are saved with what is tracked
        self.get_special_tokens_dict = _special_tokens(tokenizer.vocabulary)
        # Concrete, so that the graphs of both calls have one copy of what the tokenizer holds.
        graph = tf.function(lambda text: tokenize(ensure_text_batch(text))).get_concrete_function(TEXT_SPEC)
        self._tokenize = lambda text: graph(text)  # which is not saved beside them
        for training in (False, True):
            self.__call__.get_concrete_function(TEXT_SPEC, training)

    @tf.function
    def __call__(self, text: tf.Tensor, training: bool = False, mask: None = None) -> Any:
        """The tokens, without the places that they have in their texts or with them."""
        return self._tokenize(text)


def _special_tokens(vocabulary: Vocabulary) -> tf.types.experimental.GenericFunction:
    """The size of a vocabulary and the ids of its special tokens, int32 scalars."""
    special = vocabulary.special_ids
    ids = {
        "vocab_size": len(vocabulary),
        "padding_id": special.padding,
        "start_of_sequence_id": special.start,
        "end_of_segment_id": special.separator,
        "mask_id": special.mask,
    }
    return tf.function(
        lambda: {name: tf.constant(value, tf.int32) for name, value in ids.items()}, input_signature=[]
    )


def bert_pack_inputs(default_length: int, input_format: InputFormat) -> Module:
    """The module that packs one or two segments into the encoder's inputs.

    It is from a list of one or two ragged int32, [B, (tokens)] or [B, (words), (tokens)] each, and
    `seq_length`, an int32 scalar, to int32 [B, seq_length] by name.
    """

    @tf.function
    def call(
        segments: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor = default_length
    ) -> dict[str, tf.Tensor]:
        return pack(segments, seq_length, input_format)

    ranks = [tf.RaggedTensorSpec([None] * rank, tf.int32) for rank in (2, 3)]
    for segments in itertools.chain(itertools.product(ranks), itertools.product(ranks, ranks)):
        call.get_concrete_function(list(segments), seq_length=tf.TensorSpec([], tf.int32, "seq_length"))
    return type("BertPackInputs", (Module,), {"__call__": staticmethod(call)})()
