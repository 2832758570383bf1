"""Signatures of serving models: functions from text to answers, dense tensors in and out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.constants import INPUT_MASK, TRUNCATE, Tensors
from albert_tf.errors import InputError
from albert_tf.models.early_exit import call_with_early_exit
from albert_tf.models.encoder import AlbertEncoder, with_pooled_output
from albert_tf.models.padding import skip_padding
from albert_tf.tasks.examples import TokenizedTexts
from albert_tf.text.packing import pack, pack_spans
from albert_tf.text.text_tokenizer import InputFormat, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer

# What a request that names no signature gets, and what converters to other runtimes look for.
DEFAULT = "serving_default"
PAIR = "pair"

# The default signature with a further input, by which texts leave early.
EARLY_EXIT, PATIENCE, LAYERS = "early_exit", "patience", "layers"  # the last of its outputs
EXAMPLE_PATIENCE = {PATIENCE: [2]}  # a number for each text, as servers join requests
TEXT_EXAMPLE = {"text": ["Warm words before the first visitor."]}
PAIR_EXAMPLE = {"text": ["Is the water warm?"], "text_pair": ["It will be soon."]}

# Fillings of a mask where nobody says how many.
TOP_K = 5


class Signature(NamedTuple):
    """A function that a server answers by."""

    function: tf.types.experimental.GenericFunction  # from dense tensors to dense tensors by name
    example: Mapping[str, Any]  # a request, which a server answers before it takes others


def sign(
    answer: Callable[..., Tensors], example: Mapping[str, Any], shape: Sequence[int | None] | None = None
) -> Signature:
    """The signature of a function of tensors by name, for requests such as the example.

    Inputs are string, or int32 where the example has numbers, of a shape; None: [B], or [B, …] with the other
    axes of the example.
    """
    specs = []
    for name, value in example.items():
        array = np.array(value)
        dtype = tf.int32 if array.dtype.kind == "i" else tf.string
        specs.append(tf.TensorSpec(shape or [None, *array.shape[1:]], dtype, name))

    def function(*values: tf.Tensor) -> Tensors:
        return answer(**dict(zip(example, values, strict=True)))

    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in example]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return Signature(tf.function(function, input_signature=specs, autograph=False), example)


class Served(NamedTuple):
    """Parts of a serving model."""

    model: keras.Model  # any that a run can hold
    tokenizer: TextTokenizer
    seq_length: int  # longest input of the model in tokens
    task: Mapping[str, Any]  # content of task.json
    top_k: int = TOP_K  # fillings of a mask
    compiled: Callable[[Tensors], Tensors] | None = None  # the encoder, where XLA has it

    @property
    def encoder(self) -> AlbertEncoder:
        """The model's encoder."""
        return self.model if isinstance(self.model, AlbertEncoder) else self.model.encoder

    @property
    def input_format(self) -> InputFormat:
        """Special tokens around segments."""
        return self.tokenizer.vocabulary.input_format

    def tokens(self, *texts: tf.Tensor, keep: str = TRUNCATE) -> list[tf.RaggedTensor]:
        """The tokens, int32 [B, (tokens)], of one or two texts a row, string [B] each.

        Of texts that are too long `TextTokenizer.shorten_text` keeps what `keep` says.
        """
        batches = map(ensure_text_batch, texts)
        return [self.tokenizer.tokenize_shortened(text, self.seq_length, keep) for text in batches]

    def inputs(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """The model's inputs of one or two texts a row, string [B] each; what is too long is trimmed."""
        return without_padding(pack(self.tokens(*texts), self.seq_length, self.input_format))

    def packed(self, spans: TokenizedTexts, least: int = 1) -> dict[str, tf.Tensor]:
        """The encoder's inputs of spans that fit, int32 [R, S] each, with so many columns at least."""
        starts, lengths = (tf.unstack(tf.cast(values, tf.int32), axis=1) for values in spans[1:])
        inputs = pack_spans(spans.tokens, starts, lengths, self.seq_length, self.input_format)
        return without_padding(inputs, least)

    def encoded(self, inputs: Tensors, pooled_only: bool = False) -> Tensors:
        """`pooled_output` and `sequence_output` of the encoder's inputs [B, S]; padding's mean nothing.

        With `pooled_only` the latter may be missing.
        """
        if self.compiled is not None:
            return self.compiled(inputs)
        outputs = self.encoder(skip_padding(inputs), training=False, pooled_only=pooled_only)
        return with_pooled_output(outputs)

    def outputs(self, inputs: Tensors, patience: tf.Tensor | None = None) -> Tensors:
        """The outputs of the model's head, of the encoder's inputs [B, S]; with patience `layers`, too."""
        if patience is not None:
            return call_with_early_exit(self.model, inputs, patience)
        return self.model.head(inputs, self.encoded(inputs, self.model.reads_pooled_only), None)

    def logits(
        self, inputs: Tensors, patience: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The float32 logits of `outputs`, and the `layers` computed where texts may leave early."""
        found = dict(self.outputs(inputs, patience))
        return tf.cast(found.pop("logits"), tf.float32), {n: x for n, x in found.items() if n == LAYERS}

    @property
    def has_exits(self) -> bool:
        """True if texts can leave early."""
        return getattr(self.model, "early_exit", False)

    def label_names(self) -> list[str]:
        """The labels in the order of the logits: task.json's, and without them the numbers from 0."""
        count = self.model.num_labels
        names = self.task.get("labels") or range(count)
        if len(names) != count:
            raise InputError(f"task.json names {len(names)} labels, and the model has num_labels={count}")
        return [str(name) for name in names]


def text_signatures(
    answer: Callable[..., Tensors], takes_pairs: bool | None = None, has_exits: bool = False
) -> dict[str, Signature]:
    """`serving_default` of `text`, and `pair` of `text` and `text_pair`, string [B] each.

    Args:
      answer: from these, and perhaps `patience`, to outputs.
      takes_pairs: True for `pair` alone, False for `serving_default` alone.
      has_exits: True for `early_exit`, too: the first of these with `patience`, int32 [B].
    """
    requests: dict[str, Mapping[str, Any]] = {DEFAULT: TEXT_EXAMPLE, PAIR: PAIR_EXAMPLE}
    if takes_pairs is not None:
        del requests[DEFAULT if takes_pairs else PAIR]
    if has_exits:
        requests[EARLY_EXIT] = {**next(iter(requests.values())), **EXAMPLE_PATIENCE}
    return {name: sign(answer, example) for name, example in requests.items()}


def encoder_signatures(served: Served) -> dict[str, Signature]:
    """`serving_default` and `pair`: texts to `pooled_output`, float32 [B, H]."""

    def pooled_output(**texts: tf.Tensor) -> Tensors:
        outputs = served.encoded(served.inputs(*texts.values()))
        return {"pooled_output": tf.cast(outputs["pooled_output"], tf.float32)}

    return text_signatures(pooled_output)


def without_padding(inputs: Tensors, least: int = 1) -> dict[str, tf.Tensor]:
    """The encoder's inputs [B, S] without the columns that are padding in every row, but so many at least."""
    lengths = tf.reduce_sum(inputs[INPUT_MASK], axis=1)  # [B]
    longest = tf.maximum(tf.reduce_max(lengths), least)  # of no rows: the lowest int
    return {name: tensor[:, :longest] for name, tensor in inputs.items()}
