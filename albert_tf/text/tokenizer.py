"""`Tokenizer`, and opening the tokenizer of a vocabulary of any kind."""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.errors import InputError, shorten
from albert_tf.io import PathLike, check_path
from albert_tf.text.byte_level_bpe import BytePairTokenizer
from albert_tf.text.sentencepiece import SentencePieceTokenizer
from albert_tf.text.text_tokenizer import InputFormat, TextTokenizer, Vocabulary, check_text
from albert_tf.text.tokenizer_config import read_tokenizer_kind, read_vocabulary, resolve_settings
from albert_tf.text.wordpiece import WordPieceTokenizer

_CLASSES: tuple[type[TextTokenizer], ...] = SentencePieceTokenizer, WordPieceTokenizer, BytePairTokenizer
TOKENIZER_CLASSES = {tokenizer.kind: tokenizer for tokenizer in _CLASSES}


@dataclasses.dataclass(frozen=True)
class TokenizerConfig:
    """A tokenizer in a form that can be sent to other machines.

    Args:
      kind: a key of `TOKENIZER_CLASSES`.
      files: names and contents of the vocabulary's files.
      settings: names and values of the settings in tokenizer.json.
      name: the vocabulary's name in errors.
    """

    kind: str
    files: tuple[tuple[str, bytes], ...] = dataclasses.field(repr=False)
    settings: tuple[tuple[str, bool], ...]
    name: str = dataclasses.field(default="the vocabulary", compare=False)

    def open(self) -> TextTokenizer:
        """The tokenizer; InputError if the files are no vocabulary of this kind.

        A process that opens the same config again gets the same tokenizer, whose graphs are traced already.
        """
        return _build_tokenizer(self)


@functools.lru_cache(maxsize=4)
def _build_tokenizer(config: TokenizerConfig) -> TextTokenizer:
    tokenizer_class = TOKENIZER_CLASSES[config.kind]
    with tf.init_scope():  # its tables and models outlive the graph that is being traced
        vocabulary = tokenizer_class.vocabulary_class(dict(config.files), config.name)
        return tokenizer_class(vocabulary, **dict(config.settings))


def load_tokenizer_config(vocabulary: PathLike, **settings: Any) -> TokenizerConfig:
    """Reads the tokenizer of a vocabulary.

    A `tokenizer.json` beside the vocabulary names its kind. Without one the file's name does: `vocab.txt` is
    WordPiece, `vocab.json` with `merges.txt` is byte-level BPE, any other file is SentencePiece.

    Args:
      vocabulary: path of the vocabulary's file; for byte-level BPE, one of its two files or their folder.
      **settings: `lowercase` and `strip_accents`, bools. None or omitted: the value in the tokenizer.json, or
        the default. Byte-level BPE ignores both.
    Raises:
      FileNotFoundError: the file does not exist.
      InputError: the file is not a vocabulary of its kind, or was made with other settings.
    """
    kind, resolved = read_tokenizer_kind(vocabulary), resolve_settings(vocabulary, settings)
    files = read_vocabulary(vocabulary, kind)
    config = TokenizerConfig(kind, tuple(files.items()), tuple(resolved.items()), os.fspath(vocabulary))
    config.open()  # raises its errors now
    return config


def open_tokenizer(vocabulary: PathLike, **settings: Any) -> TextTokenizer:
    """Opens the tokenizer of a vocabulary. See `load_tokenizer_config` for the arguments and errors."""
    return load_tokenizer_config(vocabulary, **settings).open()


@keras.utils.register_keras_serializable("albert_tf")
class Tokenizer(keras.layers.Layer):
    r"""Text to token ids as a Keras layer: string [B] to int32 [B, (tokens)].

    It also works as a function, inside `Dataset.map` and `tf.function`. It adds no special tokens: `pack`
    does. With a SentencePiece model it gives the same ids as the published TF Hub preprocessor.

    A SavedModel with this layer holds the vocabulary. The layer's config holds only the path of the
    vocabulary, so `from_config` and Keras' `load_model` read the file again.

    Args:
      model_file: path of the vocabulary: a SentencePiece model, such as `albert-tf vocab` writes; a
        `vocab.txt` (WordPiece); or the folder of a `vocab.json` and a `merges.txt` (byte-level BPE).
      lowercase: True to fold case, False for cased vocabularies. None: the value in the `tokenizer.json`
        beside the vocabulary. Without one True, or False if a `vocab.txt` has pieces with capital letters.
      strip_accents: True to remove accents, False for languages where accents tell words apart. None: as
        `lowercase`.
      **kwargs: arguments of `keras.layers.Layer`, such as `name`.
    Raises:
      FileNotFoundError: the file does not exist.
      InputError: the file is not a vocabulary, or its text was normalised in another way.

    Example:
      >>> import albert_tf, pathlib, tempfile
      >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "film", "##s"]
      >>> with tempfile.TemporaryDirectory() as folder:
      ...     file = pathlib.Path(folder, "vocab.txt")
      ...     _ = file.write_text("\n".join(pieces))
      ...     tokenizer = albert_tf.Tokenizer(file)
      >>> tokenizer(["A fine film", "Films"]).to_list()
      [[5, 6, 7], [7, 8]]
      >>> tokenizer.detokenize([[5, 6, 7, 8]]).numpy().tolist()
      [b'a fine films']
    """

    def __init__(
        self,
        model_file: str | os.PathLike,
        lowercase: bool | None = None,
        strip_accents: bool | None = None,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        path = os.fspath(check_path(model_file, "model_file"))
        self.tokenize = open_tokenizer(path, lowercase=lowercase, strip_accents=strip_accents)
        settings = {name: getattr(self.tokenize, name) for name in ("lowercase", "strip_accents")}
        self._arguments = {"model_file": path, **settings}

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary: the meaning of each id."""
        return self.tokenize.vocabulary

    @property
    def input_format(self) -> InputFormat:
        """The special tokens around segments. `pack` accepts it, or the tokenizer."""
        return self.vocabulary.input_format

    @property
    def vocab_size(self) -> int:
        """The number of ids, V."""
        return len(self.vocabulary)

    def __call__(self, text: Any, *args: Any, **kwargs: Any) -> tf.RaggedTensor:
        """The token ids of each text; InputError if a value is not a text."""
        # Checked before Keras converts it, whose errors do not say which value is wrong.
        texts = text.to_numpy() if hasattr(text, "to_numpy") else text  # pandas
        texts = texts.tolist() if isinstance(texts, np.ndarray) else texts
        if isinstance(texts, list | tuple):
            for number, value in enumerate(texts):
                if not isinstance(value, bytes):
                    check_text(value, f"text[{number}]")
            texts = tf.constant(texts, tf.string)
        if not tf.is_tensor(texts) or texts.shape.rank == 0:
            raise InputError(f"text={shorten(text)} is not a list of texts: give a list, [text]")
        if texts.dtype != tf.string:
            raise InputError(f"text is a tensor of {texts.dtype.name}: texts are tf.string")
        return super().__call__(texts, *args, **kwargs)

    def call(self, text: tf.Tensor) -> tf.RaggedTensor:
        """Tokenises each text. Call the layer itself: `tokenizer(text)`.

        Args:
          text: string [B]: a tensor, or a list or array of texts.
        Returns:
          int32 [B, (tokens)], a RaggedTensor.
        Raises:
          InputError: a value is not a text.
        """
        return self.tokenize(text)

    def detokenize(self, ids: Any) -> tf.Tensor:
        """Turns token ids back into texts, without padding and the special tokens around segments.

        SentencePiece gives the normalised text, WordPiece the words and punctuation marks with spaces between
        them, byte-level BPE the original text.

        Args:
          ids: integer [B, (tokens)] or [B, S], or [S] for one text: a list, an array or a tensor.
        Returns:
          string [B]; for one text a string scalar.
        Raises:
          InputError: the ids have another shape, or one is outside the vocabulary.
        """
        try:
            ids = ids if isinstance(ids, tf.Tensor | tf.RaggedTensor) else tf.ragged.constant(ids)
        except (TypeError, ValueError):
            problem = f"ids={shorten(ids)} are no token ids"
            raise InputError(f"{problem}: give whole numbers, [batch, length] or [length]") from None
        if ids.shape.rank not in (1, 2):
            raise InputError(f"ids have the shape {ids.shape}: token ids are [batch, length], or [length]")
        rows = ids if ids.shape.rank == 2 else ids[tf.newaxis]
        tokens = rows if isinstance(rows, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(rows)
        if tf.executing_eagerly() and len(tokens.values):
            for value in (tokens.values.numpy().min(), tokens.values.numpy().max()):
                if not tokens.dtype.is_integer or not 0 <= value < self.vocab_size:
                    expected = f"whole numbers from 0 to {self.vocab_size - 1}"
                    raise InputError(f"ids hold {value}: token ids are {expected}")
        special = self.vocabulary.special_ids
        dropped = [special.padding, special.start, special.separator]
        tokens = tf.cast(tokens, tf.int32)
        is_text = tf.reduce_all(tokens.values[:, tf.newaxis] != dropped, axis=1)
        texts = self.tokenize.detokenize(tf.ragged.boolean_mask(tokens, tokens.with_values(is_text)))
        return texts if ids.shape.rank == 2 else texts[0]

    def get_config(self) -> dict[str, Any]:
        """The arguments, for `from_config`."""
        return {**super().get_config(), **self._arguments}
