"""Texts, pairs and labels in the forms in which people have them, as Keras takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.constants import TRUNCATE
from albert_tf.errors import InputError, is_missing, shorten
from albert_tf.inference.label_encoder import LabelEncoder
from albert_tf.tasks.classification import TextTask, text_rows
from albert_tf.tasks.examples import TokenizedExamples
from albert_tf.tasks.records import TextRecord
from albert_tf.text.packing import pack
from albert_tf.text.text_tokenizer import as_list
from albert_tf.text.tokenizer import TextTokenizer


def parse_texts(texts: Any, argument: str) -> list[TextRecord]:
    """Records of texts, or of pairs of texts.

    Args:
      texts: a list, array, tensor, or a column of pandas or of Hugging Face's datasets; of pairs a tuple of
        two of these, an array [B, 2], a list of tuples, or a table of two columns. A missing one (None, NaN)
        is an empty text, and a warning says how many are.
      argument: what the caller calls it, for errors.
    Raises:
      InputError: one is not a text or a pair, it is not clear which of both they are, or they are in no list.
    """
    if isinstance(texts, Mapping) and hasattr(texts, "column_names"):  # a DatasetDict
        raise InputError(
            f"{argument} holds the datasets {', '.join(texts)}: name one, and of it the column of texts"
        )
    if isinstance(texts, str | Mapping):
        raise InputError(f"{argument}={shorten(texts)} is not a list: give a list of texts, or of pairs")
    texts = _columns(texts, argument)
    values = as_list(texts)
    alike = [x for x in values if isinstance(x, list | tuple) and type(x) is type(texts) and len(x) == 2]
    if len(alike) == len(values) == 2:
        ways = "a list of tuples, [(text, text_pair), …], or a tuple of lists, (texts, text_pairs)"
        raise InputError(f"{argument}={shorten(texts)} is two pairs, or a pair of columns: give {ways}")
    if isinstance(texts, tuple) and len(values) == 2 and not any(isinstance(x, Mapping) for x in values):
        if all(isinstance(value, str) for value in values):
            raise InputError(f"{argument}: a tuple of two texts may be a pair or two texts: give a list")
        first, second = map(as_list, values)
        if len(first) != len(second):
            raise InputError(f"{argument} holds {len(first)} first texts and {len(second)} second ones")
        values = list(zip(first, second, strict=True))
    if texts is not None:
        values = _present(values, argument)
    return [TextTask.read(value, f"{argument}[{number}]") for number, value in enumerate(values)]


def _present(values: Sequence[Any], argument: str) -> list[Any]:
    """The texts, or pairs of them, with empty ones for those that are missing."""
    missing = [
        any(map(is_missing, value)) if isinstance(value, tuple | list) else is_missing(value)
        for value in values
    ]
    if not any(missing):
        return list(values)
    logging.warning("%s: %d of %d texts are missing, and read as empty", argument, sum(missing), len(values))

    def filled(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return type(value)(map(filled, value))
        return "" if is_missing(value) else value

    return list(map(filled, values))


def _columns(texts: Any, argument: str) -> Any:
    """The column of a DataFrame or Dataset, or a tuple of its two; what is no table stays as it is."""
    names = getattr(texts, "column_names", getattr(texts, "columns", None))
    if names is None:
        return texts
    names = list(names)
    if len(names) not in (1, 2) or {"label", "labels"} & {*names}:
        remedy = f"name that of the texts, {argument}['text'], or those of the pairs, {argument}[['a', 'b']]"
        raise InputError(f"{argument} has the columns {', '.join(map(repr, names))}: {remedy}")
    columns = tuple(texts[name] for name in names)
    return columns if len(columns) == 2 else columns[0]


def are_pairs(texts: Any) -> bool:
    """True if these tensors of texts, or their specs, are of pairs: two of them, or one [B, 2]."""
    return isinstance(texts, tuple | list) or (texts.shape.rank == 2 and texts.shape[1] == 2)


def segments(texts: Any) -> list[tf.Tensor]:
    """One text a row or two of them, string [B] each, of texts string [B], two of these, or string [B, 2].

    InputError if they are in no batch.
    """
    if isinstance(texts, tuple | list):
        return [segment for text in texts for segment in segments(text)]
    if texts.dtype != tf.string or texts.shape.rank not in (1, 2):
        raise InputError(f"inputs {shorten(texts)} are not texts, string [B] or [B, 2]: give batches")
    return [texts] if texts.shape.rank == 1 else tf.unstack(texts, axis=1)


def tokenize_inputs(
    x: Any, tokenizer: TextTokenizer, argument: str, seq_length: int, long: str = TRUNCATE, y: Any = None
) -> tuple[TokenizedExamples, bool]:
    """The tokens of texts in any form of `parse_texts`, and True if they are pairs; as of `text_rows`.

    InputError if there are none, one is not a text, some are pairs and some are not, or the second texts of
    pairs are the labels y, as they are where a table of texts and labels is given for the texts.
    """
    records = parse_texts(x, argument)
    if not records:
        raise InputError(f"{argument} holds no texts")
    pairs = {record.text_pair is not None for record in records}
    if len(pairs) != 1:
        raise InputError(f"{argument} holds both single texts and pairs")
    if y is not None and pairs == {True} and [record.text_pair for record in records] == list(as_list(y)):
        raise InputError(f"{argument}: the second texts are the labels: give the column of texts alone")
    return text_rows(records, tokenizer, {}, seq_length, TRUNCATE if pairs == {True} else long), pairs.pop()


def pack_texts(rows: TokenizedExamples, seq_length: int) -> dict[str, np.ndarray]:
    """The encoder's inputs, int32 [N, S] each, of texts that stand one after the other, column by column."""
    with tf.device("CPU:0"):
        tokens = [
            tf.RaggedTensor.from_row_lengths(rows.tokens[starts[0] : starts[-1] + lengths[-1]], lengths)
            for starts, lengths in zip(rows.starts.T, rows.lengths.T, strict=True)
        ]
        ids = pack(tokens, seq_length, rows.vocabulary.input_format)
    return {name: tensor.numpy() for name, tensor in ids.items()}


def tokenize_dataset(
    dataset: tf.data.Dataset, token_ids: Callable[[Any], Any], labels: LabelEncoder, argument: str
) -> tuple[tf.data.Dataset, bool | None]:
    """Batches of token ids and targets; and True if they are of pairs, False of single texts, else None.

    The dataset has batches of texts or token ids, alone or with labels and weights; `argument` is its name in
    errors. `token_ids` is a function from texts to the encoder's inputs.
    """
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) else spec
    are_ids = isinstance(inputs, Mapping)
    if are_ids and any(part.dtype == tf.string for part in tf.nest.flatten(inputs)):
        pairs = f"{argument}.map(lambda row: (row['text'], row['label']))"
        raise InputError(f"{argument} has the columns {', '.join(inputs)}: give texts and labels, {pairs}")
    if any(part.shape.rank == int(are_ids) for part in tf.nest.flatten(inputs)):
        raise InputError(f"{argument} is an unbatched tf.data.Dataset: give {argument}.batch(32)")

    def prepare(inputs: Any, *rest: Any) -> Any:
        ids = inputs if are_ids else token_ids(inputs)
        return (ids, labels.target_tensor(rest[0], argument), *rest[1:]) if rest else ids

    # Not converted by autograph, which would wrap an InputError in an error of its own.
    prepared = dataset.map(tf.autograph.experimental.do_not_convert(prepare), tf.data.AUTOTUNE)
    return prepared, None if are_ids else are_pairs(inputs)
