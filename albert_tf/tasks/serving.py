"""Serving models and their signatures: functions from text to answers, with dense tensors in and out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.constants import INPUT_MASK, TRUNCATE, WINDOWS, Tensors
from albert_tf.errors import InputError
from albert_tf.models.compiled_encoder import CompiledEncoder
from albert_tf.models.early_exit import call_with_early_exit
from albert_tf.models.encoder import AlbertEncoder, with_pooled_output
from albert_tf.models.padding import skip_padding
from albert_tf.tasks.examples import TokenizedTexts
from albert_tf.text.packing import pack, pack_spans
from albert_tf.text.text_tokenizer import InputFormat, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer

# The signature of requests that name none; converters to other runtimes look for it, too.
DEFAULT = "serving_default"
PAIR = "pair"

# The signature whose texts may leave early, its further input, and its further output.
EARLY_EXIT, PATIENCE, LAYERS = "early_exit", "patience", "layers"
EXAMPLE_PATIENCE = {PATIENCE: [2]}  # a number for each text, as servers join requests
TEXT_EXAMPLE = {"text": ["Warm words before the first visitor."]}
PAIR_EXAMPLE = {"text": ["Is the water warm?"], "text_pair": ["It will be soon."]}
TEXT_REQUESTS = {DEFAULT: TEXT_EXAMPLE, PAIR: PAIR_EXAMPLE}

# Default number of answers: tokens for a mask, or spans for a question.
TOP_K = 5


class Signature(NamedTuple):
    """A function that a server offers."""

    function: tf.types.experimental.GenericFunction  # from dense tensors to dense tensors by name
    example: Mapping[str, Any]  # a request, for the server's warm-up


def create_signature(
    answer: Callable[..., Tensors], example: Mapping[str, Any], shape: Sequence[int | None] | None = None
) -> Signature:
    """Creates the signature of a function.

    Args:
      answer: a function of tensors by name.
      example: a request. An input is int32 if its example holds numbers, otherwise string.
      shape: of each input. None: [B], or [B, …] with the other axes of the example.
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


class ServingModel(NamedTuple):
    """A model that is served, with the parts that turn texts into its inputs."""

    model: keras.Model  # any that a run can hold
    tokenizer: TextTokenizer
    seq_length: int  # longest input of the model, in tokens
    entries: Mapping[str, Any]  # content of task.json
    top_k: int = TOP_K  # answers of fill_mask and question_answering
    compiled: CompiledEncoder | None = None  # the encoder compiled by XLA

    @property
    def encoder(self) -> AlbertEncoder:
        """The model's encoder."""
        return self.model.encoder

    @property
    def input_format(self) -> InputFormat:
        """Special tokens around segments."""
        return self.tokenizer.vocabulary.input_format

    def tokenize(self, *texts: tf.Tensor, long: str = TRUNCATE) -> list[tf.RaggedTensor]:
        """Tokenises one or two texts for each row, string [B] each, to int32 [B, (tokens)] each.

        `long` is the argument of `TextTokenizer.shorten_text`, which cuts texts that are too long.
        """
        batches = map(ensure_text_batch, texts)
        return [self.tokenizer.tokenize_shortened(text, self.seq_length, long) for text in batches]

    def model_inputs(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        """Packs one or two texts for each row, string [B] each, into inputs of the model; cuts long ones."""
        return without_padding(pack(self.tokenize(*texts), self.seq_length, self.input_format))

    def pack_spans(self, spans: TokenizedTexts, least: int = 1) -> dict[str, tf.Tensor]:
        """Packs spans that fit into the encoder's inputs, int32 [R, S] each, of at least `least` columns."""
        starts, lengths = (tf.unstack(tf.cast(values, tf.int32), axis=1) for values in spans[1:])
        inputs = pack_spans(spans.tokens, starts, lengths, self.seq_length, self.input_format)
        return without_padding(inputs, least)

    def encode(self, inputs: Tensors, pooled_only: bool = False) -> Tensors:
        """`pooled_output` and `sequence_output` for the encoder's inputs, [B, S] each.

        States of padding are undefined. With `pooled_only`, `sequence_output` may be missing.
        """
        if self.compiled is not None:
            return self.compiled(inputs)
        outputs = self.encoder(skip_padding(inputs), training=False, pooled_only=pooled_only)
        return with_pooled_output(outputs)

    def head_outputs(self, inputs: Tensors, patience: tf.Tensor | None = None) -> Tensors:
        """The outputs of the model's head for the encoder's inputs, [B, S]; with `patience` also `layers`."""
        if patience is not None:
            return call_with_early_exit(self.model, inputs, patience)
        return self.model.head(inputs, self.encode(inputs, self.model.reads_pooled_only), None)

    def logits(
        self, inputs: Tensors, patience: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """The float32 logits, and with `patience` the number of computed `layers`, otherwise no entry."""
        outputs = self.head_outputs(inputs, patience)
        layers = {LAYERS: outputs[LAYERS]} if LAYERS in outputs else {}
        return tf.cast(outputs["logits"], tf.float32), layers

    @property
    def has_exits(self) -> bool:
        """True if texts can leave early. Those that are read in windows cannot."""
        return self.model.early_exit and self.entries.get("long") != WINDOWS

    def label_names(self) -> list[str]:
        """The labels in the order of the logits; if task.json has none, the numbers from 0."""
        count = self.model.num_labels
        names = self.entries.get("labels") or range(count)
        if len(names) != count:
            raise InputError(f"task.json names {len(names)} labels, and the model has num_labels={count}")
        return [str(name) for name in names]


def create_signatures(
    answer: Callable[..., Tensors], requests: Mapping[str, Mapping[str, Any]], has_exits: bool = False
) -> dict[str, Signature]:
    """Creates signatures of one function, each from an example of its requests.

    With `has_exits` it adds `early_exit`: the first of them with the further input `patience`, int32 [B].
    """
    if has_exits:
        first = next(iter(requests.values()))
        requests = {**requests, EARLY_EXIT: {**first, **EXAMPLE_PATIENCE}}
    return {name: create_signature(answer, example) for name, example in requests.items()}


def encoder_signatures(served: ServingModel) -> dict[str, Signature]:
    """`serving_default` and `pair`: texts to `pooled_output`, float32 [B, H]."""

    def pooled_output(**texts: tf.Tensor) -> Tensors:
        outputs = served.encode(served.model_inputs(*texts.values()))
        return {"pooled_output": tf.cast(outputs["pooled_output"], tf.float32)}

    return create_signatures(pooled_output, TEXT_REQUESTS)


def without_padding(inputs: Tensors, least: int = 1) -> dict[str, tf.Tensor]:
    """Drops columns of the inputs [B, S] that are padding in every row, but keeps at least `least`."""
    mask = inputs[INPUT_MASK]
    lengths = tf.where(mask > 0, tf.range(1, tf.shape(mask)[1] + 1), 0)  # [B, S], up to each token
    longest = tf.maximum(tf.reduce_max(lengths), least)  # of no rows: the lowest int
    return {name: tensor[:, :longest] for name, tensor in inputs.items()}
