"""Token ids and targets for what a classifier of texts is given, in the forms in which people have it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras
from absl import logging

from albert_tf.features import MASK
from albert_tf.inference.labels import Labels
from albert_tf.inference.texts import packed, segments, tokenised_dataset, tokenised_texts
from albert_tf.recipes import LongTexts
from albert_tf.tasks.examples.batches import few_lengths
from albert_tf.tasks.examples.rows import TokenRows, unread
from albert_tf.tasks.long_texts import pooled, text_inputs, window_inputs
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.utils.choices import WINDOWS
from albert_tf.utils.errors import InputError

# Batches that Keras takes as they are, and these or token ids.
_BATCHES = (keras.utils.Sequence, Iterator, tf.distribute.DistributedDataset)
_NOT_TEXTS = (Mapping, *_BATCHES)


class TokenInputs:
    """Methods of a model from texts to logits, which a subclass is, that make token ids of texts."""

    classifier: Any
    tokenizer: Any
    labels: Any
    seq_length: int
    long_texts: LongTexts
    pad_to_length: bool
    jit_compile: Any
    takes_pairs: bool | None
    _set_save_spec: Any

    def _labels(self, loss: Any) -> Labels:
        return Labels(self.labels, self.classifier.num_labels, loss)

    def _learn_form(self, pairs: bool | None) -> None:
        self.takes_pairs = pairs
        # Of what a SavedModel takes; Keras would have it from the first call, which may be one of token ids.
        self._saved_model_inputs_spec = None  # else Keras keeps the first
        self._set_save_spec(tf.TensorSpec([None, 2] if pairs else [None], tf.string, "text"))

    def _check_form(self, pairs: bool | None, argument: str) -> None:
        if None not in (pairs, self.takes_pairs) and pairs != self.takes_pairs:
            given, learned = ("pairs of texts", "single texts")[:: 1 if pairs else -1]
            raise InputError(f"{argument} holds {given}: the model learned {learned}")

    def _token_ids(self, texts: Any) -> dict[str, tf.Tensor]:
        """The encoder's inputs, int32 [B, S] each, of tensors of texts."""
        columns, reading = segments(texts), (self.seq_length, self.long_texts.long)
        tokens = [self.tokenizer(self.tokenizer.shorten_text(text, *reading)) for text in columns]
        return text_inputs(tokens, *self._reading)

    @property
    def _reading(self) -> tuple[int, InputFormat, LongTexts]:
        return self.seq_length, self.tokenizer.vocabulary.input_format, self.long_texts

    def _windows(self, ids: Mapping[str, tf.Tensor]) -> tuple[Any, Callable[[tf.Tensor], tf.Tensor]]:
        """The network's inputs for those of texts, and a function from its logits to those of the texts."""
        if self.long_texts.long != WINDOWS:
            return ids, lambda logits: logits
        windows, rows = window_inputs(ids, *self._reading)
        return windows, lambda logits: pooled(logits, rows, tf.shape(ids[MASK])[0], self.long_texts)

    def _columns(self, rows: TokenRows) -> int:
        """Columns of an array of texts; for XLA, which compiles for each length, one of a few."""
        if self.long_texts.long == WINDOWS:
            return int(rows.sequence_lengths.max())
        if self.pad_to_length or not self.jit_compile:
            return self.seq_length  # `call` leaves the padding of each batch out
        longest = min(rows.sequence_lengths.max(), self.seq_length)
        return next(length for length in few_lengths(self.seq_length) if length >= longest)

    def _data(self, x: Any, y: Any, argument: str, learns: bool = False) -> tuple[Any, Any]:
        """Token ids for texts, and targets for labels, if there are any."""
        labels, lines = self._labels(getattr(self, "loss", None)), []  # Keras sets the loss when it compiles
        if isinstance(x, tf.data.Dataset):
            x, pairs = tokenised_dataset(x, self._token_ids, labels, argument)
        elif isinstance(x, _NOT_TEXTS) and not hasattr(x, "column_names"):
            return x, y
        else:
            reading = self.seq_length, self.long_texts.long
            rows, pairs = tokenised_texts(x, self.tokenizer, argument, *reading, y)
            if y is not None:
                y = labels.targets(y, len(rows), "y" if argument == "x" else f"{argument}[1]")
            columns = self._columns(rows)
            x = packed(rows, columns)
            lines = unread(rows, max(columns, self.seq_length), self.long_texts.long)
        if learns and pairs is not None:
            self._learn_form(pairs)
        self._check_form(pairs, argument)
        for line in lines if learns else ():
            logging.warning(line)
        return x, y


def check_labelled(x: Any, y: Any) -> None:
    """InputError for texts without labels; a dataset has them beside its texts."""
    if y is None and not isinstance(x, (tf.data.Dataset, *_BATCHES)):
        raise InputError("y is missing: give the label of each text")
