"""The preprocessor as an exported module: text to the encoder's inputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.tokenizers import pack
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.tokenizers.kinds import TextTokenizer, TokenIds
from hub_export.module import Module, callable_module

TEXT = tf.TensorSpec([None], tf.string, "text")


class Preprocessor(Module):
    """Text to the encoder's inputs, and its steps as parts; `training` changes nothing.

    Its parts: `tokenize` is from string [B] to int32 [B, (tokens)] without special tokens, whose ids and
    number are in `tokenize.get_special_tokens_dict`; `tokenize_with_offsets` also gives the first byte of
    each token and the byte after its last, int64; `bert_pack_inputs` packs tokens.

    Args:
      tokenizer: text to token ids.
      seq_length: length S of the inputs where the caller names none, in tokens.
    """

    def __init__(self, tokenizer: TextTokenizer, seq_length: int = 128):
        super().__init__()
        self._tokenizer = tokenizer  # whose resources are saved with what is tracked
        self._seq_length = seq_length
        self._input_format = tokenizer.vocabulary.input_format
        self.tokenize = callable_module(tf.function(tokenizer.__call__, input_signature=[TEXT]))
        self.tokenize.get_special_tokens_dict = _special_tokens(tokenizer.vocabulary)
        self.tokenize_with_offsets = callable_module(
            tf.function(lambda text: list(tokenizer.tokenize_with_offsets(text)), input_signature=[TEXT])
        )
        self.bert_pack_inputs = bert_pack_inputs(seq_length, self._input_format)
        for training in (False, True):
            self.__call__.get_concrete_function(TEXT, training=training)

    @tf.function
    def __call__(self, text: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """Each text as one segment: string [B] to int32 [B, S] by name."""
        text = self._tokenizer.shorten_text(text, self._seq_length)
        return pack([self.tokenize(text)], self._seq_length, self._input_format)


def _special_tokens(vocabulary: TokenIds) -> tf.types.experimental.GenericFunction:
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
    return callable_module(call)
