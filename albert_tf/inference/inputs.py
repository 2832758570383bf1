"""Inputs of TextClassifier: texts and labels in the forms of Keras, pandas and scikit-learn."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from albert_tf.constants import ENCODER_INPUTS, FIRST, TRUNCATE
from albert_tf.errors import InputError, is_missing, shorten
from albert_tf.finetuning.data import class_weights
from albert_tf.finetuning.finetuning_recipes import BALANCED
from albert_tf.inference.classifier_metrics import ProbabilityMetric
from albert_tf.runs.build_model import arguments_of
from albert_tf.tasks.classification import TextTask, text_rows
from albert_tf.tasks.examples import TextRecord, TokenizedExamples, check_forms, normalize_label
from albert_tf.tasks.task import TaskEntries, to_arrays
from albert_tf.text.packing import pack
from albert_tf.text.text_tokenizer import as_list, check_text
from albert_tf.text.tokenizer import TextTokenizer

HEAD_VARIABLES = ("classifier/output_weights", "classifier/output_bias")

_CATEGORICAL = "compile with loss=tf_keras.losses.CategoricalCrossentropy(from_logits=True)"


class LabelEncoder(NamedTuple):
    """Encodes labels as targets of a classifier's loss."""

    names: Sequence[str] | None  # in the order of the logits; None if they have none
    num_labels: int  # K
    loss: Any  # as in Keras' `compile`
    multi_label: bool = False  # True if a text has any number of labels

    @property
    def is_regression(self) -> bool:
        """True if the one logit is a number."""
        return self.num_labels == 1 and not self.multi_label

    @property
    def are_one_hot(self) -> bool:
        """True if the loss compares one-hot labels."""
        return self._is_loss("categorical")

    def _is_loss(self, beginning: str) -> bool:
        """True if the loss's name, of a function or a class of Keras, has this beginning."""
        loss = self.loss
        name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
        return name.replace("_", "").lower().startswith(beginning)

    def check_metrics(self, metrics: Any) -> None:
        """Raises InputError if a metric cannot compare the model's logits with the targets."""
        for metric in tf.nest.flatten(metrics):
            is_binary = isinstance(metric, ProbabilityMetric)
            if is_binary and metric.needs_rows(self.num_labels) and not self._has_rows:
                raise InputError(
                    f"metrics: {type(metric.metric).__name__} needs one-hot labels: {_CATEGORICAL}"
                )

    def targets(self, labels: Any, count: int, argument: str) -> np.ndarray:
        """Encodes labels as targets.

        Args:
          labels: a number from 0, a name, or a one-hot row for each text; for several labels of a text also a
            list of names; for regression a number.
          count: number of texts.
          argument: name of the labels in errors.
        Returns:
          int32 [N]; for one-hot or several labels float32 [N, K]; for regression float32 [N].
        Raises:
          InputError: a label is missing or does not fit.
        """
        values = [x.tolist() if isinstance(x, np.ndarray | np.generic) else x for x in as_list(labels)]
        if len(values) != count:
            raise InputError(f"{argument} holds {len(values)} labels for {count} texts")
        if not self.multi_label and all(isinstance(value, list) and len(value) == 1 for value in values):
            values = [value for (value,) in values]
        if self.is_regression:
            for number, value in enumerate(values):
                if not isinstance(value, int | float) or not np.isfinite(value):
                    raise InputError(f"{argument}[{number}]={shorten(value)} is not a finite number")
            return np.array(values, np.float32)
        if all(_is_row(value, self.num_labels) for value in values):
            rows = np.array(values, np.float32)
            self._check_shape(rows, argument)
            is_row = ((rows >= 0) & (rows <= 1)).all(axis=1)  # NaN is no number of a row either
            if not is_row.all():
                row = int(is_row.argmin())
                raise InputError(
                    f"{argument}[{row}]={shorten(values[row])} is no row of 0 and 1, one for each label: "
                    "give the labels' names"
                )
            return rows
        known = self._known_labels()
        if self.multi_label:
            rows = np.zeros([count, self.num_labels], np.float32)
            for row, value in enumerate(values):
                for label in value if isinstance(value, list | tuple | set) else [value]:
                    rows[row, _label_number(label, known, f"{argument}[{row}]")] = 1
            return rows
        found = [_label_number(value, known, f"{argument}[{row}]") for row, value in enumerate(values)]
        targets = np.array(found, np.int32)
        return np.eye(self.num_labels, dtype=np.float32)[targets] if self.are_one_hot else targets

    def weights(self, class_weight: Any) -> dict[int, float]:
        """Weights of all labels by number, given weights by name or number. Missing ones are 1."""
        if self.num_labels == 1 or not isinstance(class_weight, Mapping):
            raise InputError(
                f"class_weight={shorten(class_weight)} must be a dict from labels to weights, or {BALANCED!r}"
            )
        encoder = self._replace(loss=None, multi_label=False)
        numbers = encoder.targets(list(class_weight), len(class_weight), "class_weight").tolist()
        weights = dict.fromkeys(range(self.num_labels), 1.0)
        for place, (number, (label, weight)) in enumerate(zip(numbers, class_weight.items(), strict=True)):
            if number in numbers[:place]:
                raise InputError(f"class_weight: {label!r} is there by name and by number: give it once")
            if not isinstance(weight, int | float | np.number) or not 0 <= weight < np.inf:
                raise InputError(f"class_weight[{label!r}]={shorten(weight)} is not a weight of at least 0")
            weights[number] = float(weight)
        return weights

    def balanced_weights(self, targets: Any) -> dict[int, float]:
        """Balanced weights of all labels by number, as in scikit-learn, from the result of `targets`."""
        if self.num_labels == 1 or not isinstance(targets, np.ndarray):
            remedy = "name weights by label, or leave it out"
            raise InputError(f"class_weight={BALANCED!r} counts labels of a list or array in y: {remedy}")
        numbers = targets.argmax(axis=-1) if targets.ndim == 2 else targets
        return dict(enumerate(class_weights(BALANCED, [""] * self.num_labels, numbers)))

    def target_tensor(self, labels: tf.Tensor, argument: str) -> tf.Tensor:
        """Encodes the labels of a batch of a tf.data.Dataset.

        Args:
          labels: string or integer [B], or [B, K].
          argument: name of the dataset in errors.
        Returns:
          integer [B] or float32 [B, K].
        Raises:
          InputError: labels are names and the model has none, or one-hot and the loss takes numbers.
          tf.errors.InvalidArgumentError: when the graph runs, for an unknown label; see
            `translate_label_errors`.
        """
        self._check_shape(labels, argument)
        encode = self._encode_names if labels.dtype == tf.string else self._encode_numbers
        return encode(labels, argument)

    def _encode_names(self, labels: tf.Tensor, argument: str) -> tf.Tensor:
        """The targets of labels by name, string [B] or [B, 1]."""
        if self.names is None:
            raise InputError(f"{argument} has labels by name, and the model has no names: give it labels")
        if labels.shape.rank != 1 and labels.shape[1:] != (1,):
            raise InputError(
                f"{argument} has names of labels in the shape {labels.shape}: give one name a text, or rows "
                "of 0 and 1, one for each label"
            )
        labels = tf.reshape(labels, [-1])  # [B]
        matches = labels[:, tf.newaxis] == tf.constant(list(self.names))  # [B, K]
        unknown = labels[~tf.reduce_any(matches, axis=1)]
        message = f"{argument} has labels that are none of {', '.join(self.names)}:"
        matches = _with_check(matches, unknown, message)
        return tf.cast(matches, tf.float32) if self._has_rows else tf.argmax(matches, axis=1)

    def _encode_numbers(self, labels: tf.Tensor, argument: str) -> tf.Tensor:
        """The targets of labels by number, [B] or [B, 1], of rows, or of the numbers of a regression."""
        is_flat = labels.shape.rank == 1
        if is_flat and not self.is_regression:
            known = self._known_labels()
            for number in range(self.num_labels):  # raises InputError where it is another one's name
                _label_number(number, known, argument)
        becomes_rows = is_flat and self._has_rows
        if becomes_rows or self._are_checked(labels):
            unknown = labels[(labels < 0) | (labels >= tf.cast(self.num_labels, labels.dtype))]
            message = f"{argument}: labels outside 0 to {self.num_labels - 1}:"
            labels = _with_check(labels, unknown, message)
        return tf.one_hot(tf.cast(labels, tf.int32), self.num_labels) if becomes_rows else labels

    @property
    def _has_rows(self) -> bool:
        """True if the loss takes a row of K targets for each text."""
        return self.are_one_hot or self.multi_label

    def _known_labels(self) -> dict[Any, int | None]:
        """The numbers of the labels, by name and by number; None for a number that is another one's name.

        Some libraries read a file's labels as numbers, and others as texts.
        """
        numbers = range(self.num_labels)
        known: dict[Any, int | None] = dict(zip(self.names or (), numbers, strict=False))
        named = {normalize_label(name): number for name, number in known.items()}
        known |= {number: number for number in numbers}
        for name, number in {**{str(number): number for number in numbers}, "false": 0, "true": 1}.items():
            if named.get(name, number) != number:
                known[number] = None
        return known

    def _are_checked(self, labels: tf.Tensor) -> bool:
        """True if the loss takes these labels as numbers and ignores none of them."""
        ignores = getattr(self.loss, "ignore_class", None) is not None
        are_numbers = labels.dtype.is_integer and self.num_labels > 1
        return self._is_loss("sparsecategorical") and not ignores and are_numbers

    def _check_shape(self, labels: Any, argument: str) -> None:
        """Raises InputError for one-hot labels [B, K] if the loss takes numbers."""
        are_rows = labels.shape[1:] == (self.num_labels,) and self.num_labels > 1
        if are_rows and self._is_loss("sparsecategorical"):
            shape = tuple(labels.shape)
            raise InputError(f"{argument} has the shape {shape}, which is one-hot: {_CATEGORICAL}")


@contextlib.contextmanager
def translate_label_errors() -> Iterator[None]:
    """Translates the error of a graph about an unknown label into an InputError of one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(r"assertion failed: \[(.* labels .*):\] (\[.*\])", error.message)
        if found is None:
            raise
        raise InputError(f"{found[1]}: {found[2]}") from None


def _with_check(values: tf.Tensor, unknown: tf.Tensor, message: str) -> tf.Tensor:
    """Returns the values. When the graph runs, unknown labels raise InvalidArgumentError with the message."""
    labels, _ = tf.unique(unknown)
    with tf.control_dependencies([tf.debugging.Assert(tf.size(labels) == 0, [message, labels])]):
        return tf.identity(values)


def expand_weight(sample_weight: Any, count: int) -> np.ndarray | None:
    """Weights of `count` texts, float32 [N], from one weight per text or one for all; None stays None.

    Raises InputError unless they are finite, at least 0, and as many as texts.
    """
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, np.float32)
    except (TypeError, ValueError):
        raise InputError(
            f"sample_weight={shorten(sample_weight)} must be one number, or one for each text"
        ) from None
    if weights.shape not in ((), (count,)):
        shape = [*weights.shape]
        raise InputError(f"sample_weight has the shape {shape}: give one weight for each text, [{count}]")
    for row, value in enumerate(weights.ravel().tolist()):
        if isinstance(sample_weight, str) or not 0 <= value < np.inf:
            given = f"[{row}]={value}" if weights.ndim else f"={shorten(sample_weight)}"
            raise InputError(f"sample_weight{given} must be a finite number of at least 0")
    return np.broadcast_to(weights, count).copy()


def check_label_names(labels: Any, multi_label: bool) -> list[str]:
    """Returns labels' names as a list. Raises InputError unless they differ and are enough."""
    values = [] if isinstance(labels, str | Mapping) else as_list(labels)
    names = [check_text(name, f"labels[{number}]") for number, name in enumerate(values)]
    if not (1 if multi_label else 2) <= len(names) == len(set(names)):
        form = "a list of at least two different names; with multi_label one is enough"
        raise InputError(f"labels={shorten(labels)}: labels must be {form}")
    return names


def choose_head(
    entries: TaskEntries,
    origin: str | os.PathLike[str],
    num_labels: int | None,
    labels: Sequence[str] | None,
    pooling: str | None,
    multi_label: bool,
) -> tuple[dict[str, Any], bool]:
    """Chooses the head of a classifier that begins with the weights of a run.

    Args:
      entries: entries of the run's task.json.
      origin: name of the run in messages.
      num_labels: number of labels. None: the length of `labels`, or the run's number.
      labels: names of the labels. None: the run's names, if their number fits.
      pooling: see `AlbertClassifier`. None: the run's pooling, or "first".
      multi_label: True if a text has any number of labels.
    Returns:
      Entries of task.json for the head, and True if it is the run's own head.
    """
    if labels is not None:
        labels = check_label_names(labels, multi_label)
    stored = entries if entries["model"] == "classifier" else {}
    if stored.get("num_labels") == 1 and not multi_label:  # Hugging Face names the number of a regression
        stored = {**stored, "labels": None}
    if labels is None and num_labels in (None, stored.get("num_labels")):
        labels = stored.get("labels")
    if num_labels is None:
        num_labels = stored.get("num_labels") if labels is None else len(labels)
    if num_labels is None:
        raise InputError(f"num_labels is missing: {origin} is no classifier: say it, or name the labels")
    pooling = pooling or stored.get("pooling", FIRST)
    head = {"model": "classifier", "num_labels": num_labels, "pooling": pooling, "labels": labels}
    exits = {name: stored[name] for name in ("early_exit", "exit_threshold") if name in stored}
    is_same = bool(stored) and arguments_of(head | exits) == arguments_of(stored)
    is_same = is_same and bool(stored.get("multi_label")) == multi_label
    is_kept = is_same and stored.get("labels") in (None, labels)
    if is_kept:
        head |= exits
    if stored and not is_kept:
        message = "%s has a head of %s, labels %s, which is left: that of %s, labels %s, begins at random"
        heads = arguments_of(stored), stored.get("labels"), arguments_of(head), labels
        logging.warning(message, origin, *heads)
    return head, is_kept


def parse_texts(texts: Any, argument: str) -> list[TextRecord]:
    """Makes records of texts, or of pairs of texts.

    Args:
      texts: a list, array, tensor, or a column of pandas or of Hugging Face's datasets. Pairs are a tuple of
        two of these, an array [B, 2], a list of tuples, or a table of two columns. Missing texts (None, NaN)
        are read as empty, with a warning.
      argument: name of the texts in errors.
    Raises:
      InputError: `texts` is no list, a value is neither a text nor a pair, or it is not clear which it is.
    """
    if isinstance(texts, Mapping) and hasattr(texts, "column_names"):  # a DatasetDict
        raise InputError(
            f"{argument} holds the datasets {', '.join(texts)}: name one, and of it the column of texts"
        )
    if isinstance(texts, str | Mapping):
        raise InputError(f"{argument}={shorten(texts)} is not a list: give a list of texts, or of pairs")
    texts = table_columns(texts, argument)
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
        values = _fill_missing(values, argument)
    return [TextTask.parse_input(value, f"{argument}[{number}]") for number, value in enumerate(values)]


def _is_row(value: Any, size: int) -> bool:
    """True for a list of as many numbers."""
    return isinstance(value, list) and len(value) == size and not any(isinstance(x, str) for x in value)


def _label_number(label: Any, known: Mapping[Any, int | None], where: str) -> int:
    """The number of a label, a key of `known`; an InputError names it by `where`."""
    if isinstance(label, list) or label not in known:
        raise InputError(f"{where}={shorten(label)} is not one of {', '.join(map(repr, known))}")
    number = known[label]
    if number is None:
        problem = f"{where.partition('[')[0]} holds {label}, the number of one label and the name of another"
        raise InputError(f"{problem}: give the names, as texts")
    return number


def _fill_missing(values: Sequence[Any], argument: str) -> list[Any]:
    """Replaces missing texts, also in pairs, by empty ones."""

    def fill(value: Any) -> Any:
        if isinstance(value, tuple | list):
            kind = list if isinstance(value, list) else tuple  # a namedtuple takes no list
            return kind(map(fill, value))
        return "" if is_missing(value) else value

    def has_missing(value: Any) -> bool:
        return any(map(has_missing, value)) if isinstance(value, tuple | list) else is_missing(value)

    if missing := sum(map(has_missing, values)):
        logging.warning("%s: %d of %d texts are missing, and read as empty", argument, missing, len(values))
    return list(map(fill, values))


def table_columns(texts: Any, argument: str) -> Any:
    """The column of a table, or a tuple of its two columns; other values stay as they are."""
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
    """True if tensors of texts, or their specs, hold pairs: two tensors, or one [B, 2]."""
    return isinstance(texts, tuple | list) or (texts.shape.rank == 2 and texts.shape[1] == 2)


def segments(texts: Any) -> list[tf.Tensor]:
    """Splits texts, string [B], [B, 2] or a tuple of two, into one or two columns, string [B] each.

    Raises InputError for texts without a batch axis.
    """
    if isinstance(texts, tuple | list):
        return [segment for text in texts for segment in segments(text)]
    if texts.dtype != tf.string or texts.shape.rank not in (1, 2):
        raise InputError(f"inputs {shorten(texts)} are not texts, string [B] or [B, 2]: give batches")
    return [texts] if texts.shape.rank == 1 else tf.unstack(texts, axis=1)


def tokenize_inputs(
    x: Any, tokenizer: TextTokenizer, argument: str, seq_length: int, long: str = TRUNCATE, y: Any = None
) -> tuple[TokenizedExamples, bool]:
    """Tokenises texts in any form of `parse_texts`. Returns the tokens, and True if they are pairs.

    Raises InputError if there are no texts, a value is not a text, only some are pairs, or the second texts
    equal the labels y: then x was a table of texts and labels.
    """
    records = parse_texts(x, argument)
    if not records:
        raise InputError(f"{argument} holds no texts")
    pairs = check_forms(records)
    if y is not None and pairs and [record.text_pair for record in records] == list(as_list(y)):
        raise InputError(f"{argument}: the second texts are the labels: give the column of texts alone")
    return text_rows(records, tokenizer, {}, seq_length, TRUNCATE if pairs else long), pairs


def pack_texts(rows: TokenizedExamples, seq_length: int) -> dict[str, np.ndarray]:
    """Packs tokenised texts, which must be consecutive, into the encoder's inputs, int32 [N, S] each."""
    with tf.device("CPU:0"):
        tokens = [
            tf.RaggedTensor.from_row_lengths(rows.tokens[starts[0] : starts[-1] + lengths[-1]], lengths)
            for starts, lengths in zip(rows.starts.T, rows.lengths.T, strict=True)
        ]
        ids = pack(tokens, seq_length, rows.vocabulary.input_format)
    return to_arrays(ids)


def tokenize_dataset(
    dataset: tf.data.Dataset, token_ids: Callable[[Any], Any], labels: LabelEncoder, argument: str
) -> tuple[tf.data.Dataset, bool | None]:
    """Maps a dataset to batches of token ids and targets.

    Args:
      dataset: batches of texts or token ids, alone or with labels and weights.
      token_ids: a function from texts to the encoder's inputs.
      labels: encodes the labels.
      argument: name of the dataset in errors.
    Returns:
      The new dataset, and True if its texts are pairs, False for single texts, None for token ids.
    """
    spec = dataset.element_spec
    inputs = spec[0] if isinstance(spec, tuple) else spec
    are_ids = isinstance(inputs, Mapping)
    if are_ids:  # the model ignores other columns
        inputs = {name: part for name, part in inputs.items() if name in ENCODER_INPUTS} or inputs
    if are_ids and any(part.dtype == tf.string for part in tf.nest.flatten(inputs)):
        pairs = f"{argument}.map(lambda row: (row['text'], row['label']))"
        raise InputError(f"{argument} has the columns {', '.join(inputs)}: give texts and labels, {pairs}")
    if any(part.shape.rank == int(are_ids) for part in tf.nest.flatten(inputs)):
        raise InputError(f"{argument} is an unbatched tf.data.Dataset: give {argument}.batch(32)")

    def prepare(inputs: Any, *rest: Any) -> Any:
        ids = inputs if are_ids else token_ids(inputs)
        return (ids, labels.target_tensor(rest[0], argument), *rest[1:]) if rest else ids

    # Without autograph, which would wrap an InputError in another error.
    prepared = dataset.map(tf.autograph.experimental.do_not_convert(prepare), tf.data.AUTOTUNE)
    return prepared, None if are_ids else are_pairs(inputs)
