"""A serving model: signatures from text to answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.constants import ENCODER_INPUTS, Tensors
from albert_tf.models.encoder import with_pooled_output
from albert_tf.runs.build_model import task_of
from albert_tf.tasks import create_task
from albert_tf.tasks.feature_extraction import FeatureExtraction
from albert_tf.tasks.serving import DEFAULT, Served, Signature, encoder_signatures, sign
from albert_tf.tasks.task import FinetuningTask
from hub_export.modules import ids_spec

# The signatures from token ids: to the encoder's outputs, and to those of a fine-tuned head.
TOKENS_SIGNATURE, HEAD_SIGNATURE = "tokens", "head"


def serving_signatures(served: Served) -> dict[str, Signature]:
    """Signatures of a model by name.

    Those of the kind of task; `serving_default`, the first of these, which a request that names none gets;
    `embed`, embeddings of texts; `tokens`, the encoder's `ids_signature`; and `head`, that of a fine-tuned
    model. A ValueError says that task.json does not fit the model, or that the longest input is too short for
    the task.
    """
    model, encoder, ids = served.model, served.encoder, served.tokenizer.vocabulary.special_ids

    def encoded(inputs: Tensors) -> Tensors:
        return with_pooled_output(encoder(inputs, training=False))

    # Concrete, so that the graph of `head` calls that of `tokens` and does not hold all layers again.
    call = served.compiled or tf.function(encoded, autograph=False).get_concrete_function(
        ids_spec(ENCODER_INPUTS)
    )
    example = dict(zip(ENCODER_INPUTS, ([[ids.start, ids.separator]], [[1, 1]], [[0, 0]]), strict=True))
    of_ids = {TOKENS_SIGNATURE: Signature(ids_signature(call), example)}
    if model is encoder:
        signatures = encoder_signatures(served)
    else:
        kind = create_task({**served.task, **task_of(model)})
        signatures = kind.signatures(served)
        if isinstance(kind, FinetuningTask):
            of_ids[HEAD_SIGNATURE] = head_signature(model, call, example)
    embed = FeatureExtraction(encoder.config.hidden_size).signatures(served)
    return {DEFAULT: next(iter(signatures.values())), **signatures, **embed, **of_ids}


def head_signature(
    model: keras.Model, call: Callable[[Tensors], Tensors], example: Mapping[str, Any]
) -> Signature:
    """The outputs of a fine-tuned model by token ids, without ops of text: for other runtimes.

    Inputs are those of `ids_signature`, of multiple choice [B, C, S]; outputs are what the model returns.
    `call` is from the encoder's inputs to its outputs, `example` a request for it.
    """
    choices = getattr(model, "num_choices", None)
    # A span labeler with answerability needs as many columns as it follows up starts and ends.
    columns = max(getattr(model, "start_n_top", 0), getattr(model, "end_n_top", 0))
    shape: list[int | None] = [None, None] if choices is None else [None, choices, None]
    request = {}
    for name, row in example.items():
        wide = np.pad(row, [[0, 0], [0, max(columns - len(row[0]), 0)]])
        request[name] = (wide if choices is None else wide[np.newaxis].repeat(choices, 1)).tolist()
    return Signature(ids_signature(functools.partial(model.with_encoder, call), None, shape), request)


def ids_signature(
    call: Callable[[Tensors], Tensors],
    names: Sequence[str] | None = ("pooled_output", "sequence_output"),
    shape: Sequence[int | None] = (None, None),
) -> tf.types.experimental.GenericFunction:
    """A network for those who know signatures only, such as servers and other runtimes.

    It is from `input_word_ids`, `input_mask`, `input_type_ids` int32 [B, S], or of another shape, to outputs
    of a call from inputs by name, None for all; floats are float32. Of an encoder they are `pooled_output`
    [B, H] and `sequence_output` [B, S, H]. Ranks are checked in the graph: a server does not compare them.
    """

    def answer(**ids: tf.Tensor) -> Tensors:
        outputs = call({name: tf.ensure_shape(tensor, shape) for name, tensor in ids.items()})
        found = {name: outputs[name] for name in names or outputs}
        return {name: tf.cast(x, tf.float32) if x.dtype.is_floating else x for name, x in found.items()}

    return sign(answer, {name: [0] for name in ENCODER_INPUTS}, shape).function
