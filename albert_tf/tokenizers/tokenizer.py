"""A tokenizer as a Keras layer."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.tokenizers.given import text_tensor
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.tokenizers.kinds import TokenIds, open_tokenizer
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import checked_path


@keras.utils.register_keras_serializable("albert_tf")
class Tokenizer(keras.layers.Layer):
    """Text to token ids as a Keras layer: string [B] → int32 [B, (tokens)].

    Also a plain callable, in `Dataset.map` and in `tf.function`. The tokens are those of the published
    preprocessor, and no special tokens are added. For `tf.saved_model.load` a SavedModel holds it all;
    the config keeps only its path, so that `from_config` and Keras' `load_model` read the file again.

    Args:
      model_file: a vocabulary, such as a SentencePiece model that `albert-tf vocab` has trained.
      lowercase: True folds case; False for cased vocabularies.
      strip_accents: True drops accents; False for languages that distinguish by them.
    Raises:
      FileNotFoundError: the file does not exist.
      ValueError: it is not a vocabulary, or remembers that its text was normalised otherwise.
    """

    def __init__(
        self, model_file: str | os.PathLike, lowercase: bool = True, strip_accents: bool = True, **kwargs: Any
    ):
        super().__init__(**kwargs)
        self._arguments = {
            "model_file": os.fspath(checked_path(model_file, "model_file")),
            "lowercase": lowercase,
            "strip_accents": strip_accents,
        }
        self.tokenize = open_tokenizer(model_file, lowercase=lowercase, strip_accents=strip_accents)

    @property
    def vocabulary(self) -> TokenIds:
        """The meaning of the ids."""
        return self.tokenize.vocabulary

    @property
    def input_format(self) -> InputFormat:
        """The special tokens around segments, for `pack`."""
        return self.vocabulary.input_format

    @property
    def vocab_size(self) -> int:
        """The number of ids, V."""
        return len(self.vocabulary)

    def __call__(self, text: Any, *args: Any, **kwargs: Any) -> tf.RaggedTensor:
        """The token ids of each text; an InputError where something is not a text."""
        # Looked at before Keras converts it, whose errors do not say which text it is.
        return super().__call__(text_tensor(text, "text"), *args, **kwargs)

    def call(self, text: tf.Tensor) -> tf.RaggedTensor:
        """The token ids of each text, [B] → [B, (tokens)]."""
        return self.tokenize(text)

    def detokenize(self, ids: Any) -> tf.Tensor:
        """The texts of token ids, without padding and the special tokens around segments.

        SentencePiece gives back the text as it was normalised; WordPiece its words and marks, with a space
        between; byte-level BPE the very text.

        Args:
          ids: integer [B, (tokens)] or [B, S], or [S] of one text: lists, an array or a tensor.
        Returns:
          string [B], or [] of one text.
        Raises:
          InputError: they are of another shape, or one is none of the vocabulary.
        """
        ids = ids if tf.is_tensor(ids) else tf.ragged.constant(ids)
        if ids.shape.rank not in (1, 2):
            raise InputError(f"ids have the shape {ids.shape}: token ids are [batch, length], or [length]")
        rows = ids if ids.shape.rank == 2 else ids[tf.newaxis]
        tokens = rows if isinstance(rows, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(rows)
        self._check_ids(tokens.values)
        special = self.vocabulary.special_ids
        dropped = [special.padding, special.start, special.separator]
        tokens = tf.cast(tokens, tf.int32)
        is_text = tf.reduce_all(tokens.values[:, tf.newaxis] != dropped, axis=1)
        texts = self.tokenize.detokenize(tf.ragged.boolean_mask(tokens, tokens.with_values(is_text)))
        return texts if ids.shape.rank == 2 else texts[0]

    def _check_ids(self, ids: tf.Tensor) -> None:
        """InputError for what is no token id, where the values are known."""
        if not tf.executing_eagerly() or not len(ids):
            return
        for value in (ids.numpy().min(), ids.numpy().max()):
            if not ids.dtype.is_integer or not 0 <= value < self.vocab_size:
                raise InputError(
                    f"ids hold {value}: token ids are whole numbers from 0 to {self.vocab_size - 1}"
                )

    def get_config(self) -> dict[str, Any]:
        """The arguments, for `from_config`."""
        return {**super().get_config(), **self._arguments}
