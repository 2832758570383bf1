"""The preprocessor as an exported module: text to the encoder's inputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import tensorflow as tf

from albert_tf.tokenizers import pack
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.tokenizers.kinds import TextTokenizer
from hub_export.module import Module

TEXT = tf.TensorSpec([None], tf.string, "text")


class Preprocessor(Module):
    """Text to the encoder's inputs, and its steps as parts; `training` changes nothing.

    Args:
      tokenizer: text to token ids.
      seq_length: length S of the inputs where the caller names none, in tokens.
    """

    def __init__(self, tokenizer: TextTokenizer, seq_length: int = 128):
        super().__init__()
        self._seq_length = seq_length
        self._input_format = tokenizer.vocabulary.input_format
        self.tokenize = Tokenize(tokenizer)
        self.tokenize_with_offsets = TokenizeWithOffsets(tokenizer)
        self.bert_pack_inputs = bert_pack_inputs(seq_length, self._input_format)
        for training in (False, True):
            self.__call__.get_concrete_function(TEXT, training=training)

    @tf.function
    def __call__(self, text: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        """Each text as one segment: string [B] to int32 [B, S] by name."""
        return pack([self.tokenize(text)], self._seq_length, self._input_format)


class Tokenize(Module):
    """Text to token ids, no special tokens added: string [B] to int32 [B, (tokens)]."""

    def __init__(self, tokenizer: TextTokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    @tf.function(input_signature=[TEXT])
    def __call__(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text."""
        return self._tokenizer(text)

    @tf.function(input_signature=[])
    def get_special_tokens_dict(self) -> dict[str, tf.Tensor]:
        """The size of the vocabulary and the ids of its special tokens, int32 scalars."""
        special = self._tokenizer.vocabulary.special_ids
        ids = {
            "vocab_size": len(self._tokenizer.vocabulary),
            "padding_id": special.padding,
            "start_of_sequence_id": special.start,
            "end_of_segment_id": special.separator,
            "mask_id": special.mask,
        }
        return {name: tf.constant(value, tf.int32) for name, value in ids.items()}


class TokenizeWithOffsets(Module):
    """Text to token ids and their bytes in it: string [B] to int32, int64, int64 [B, (tokens)]."""

    def __init__(self, tokenizer: TextTokenizer):
        super().__init__()
        self._tokenizer = tokenizer

    @tf.function(input_signature=[TEXT])
    def __call__(self, text: tf.Tensor) -> list[tf.RaggedTensor]:
        """Of each text the token ids, the first byte of each token, and the byte after its last."""
        return list(self._tokenizer.tokenize_with_offsets(text))


def bert_pack_inputs(default_length: int, input_format: InputFormat) -> Module:
    """The module that packs one or two segments into the encoder's inputs.

    It is from a list of one or two ragged int32, [B, (tokens)] or [B, (words), (tokens)] each, and
    `seq_length`, an int32 scalar, to int32 [B, seq_length] by name.
    """

    # The default of an argument is part of what is saved: only a class made for it can have its own.
    class BertPackInputs(Module):
        @tf.function
        def __call__(
            self, segments: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor = default_length
        ) -> dict[str, tf.Tensor]:
            """The segments, trimmed to fit, framed and padded."""
            return pack(segments, seq_length, input_format)

    module = BertPackInputs()
    ranks = [tf.RaggedTensorSpec([None] * rank, tf.int32) for rank in (2, 3)]
    for segments in itertools.chain(itertools.product(ranks), itertools.product(ranks, ranks)):
        spec = list(segments)
        module.__call__.get_concrete_function(spec, seq_length=tf.TensorSpec([], tf.int32, "seq_length"))
    return module
