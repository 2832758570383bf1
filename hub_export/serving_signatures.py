"""Signatures of a serving model: from text to answers, and from token ids to outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.constants import ENCODER_INPUTS, Tensors
from albert_tf.models.encoder import text_states
from albert_tf.runs.build_model import task_of
from albert_tf.tasks import create_task
from albert_tf.tasks.feature_extraction import FeatureExtraction
from albert_tf.tasks.serving import DEFAULT, ServingModel, Signature, create_signature, encoder_signatures
from albert_tf.tasks.task import FinetuningTask
from hub_export.modules import ids_spec

# Signatures from token ids to the outputs of the encoder and of a fine-tuned head.
TOKENS_SIGNATURE, HEAD_SIGNATURE = "tokens", "head"


def serving_signatures(served: ServingModel) -> dict[str, Signature]:
    """All signatures of a serving model, by name.

    They are the signatures of the task; `serving_default`, which is the first of these; `embed`, from texts
    to embeddings; `tokens`, the `ids_signature` of the encoder; and `head`, the `head_signature` of a
    fine-tuned model.

    Raises:
      ValueError: task.json does not fit the model, or the longest input is too short for the task.
    """
    model, encoder, ids = served.model, served.encoder, served.tokenizer.vocabulary.special_ids

    # A concrete function: the graph of `head` then calls the graph of `tokens` and repeats no layers.
    encode = tf.function(functools.partial(text_states, encoder), autograph=False)  # no layers, no exits
    call = served.compiled or encode.get_concrete_function(ids_spec(ENCODER_INPUTS))
    example = dict(zip(ENCODER_INPUTS, ([[ids.start, ids.separator]], [[1, 1]], [[0, 0]]), strict=True))
    ids_signatures = {TOKENS_SIGNATURE: Signature(ids_signature(call), example)}
    if model is encoder:
        signatures = encoder_signatures(served)
    else:
        task = create_task({**served.entries, **task_of(model)})
        signatures = task.signatures(served)
        if isinstance(task, FinetuningTask):
            ids_signatures[HEAD_SIGNATURE] = head_signature(model, call, example)
    embed = FeatureExtraction(encoder.config.hidden_size).signatures(served)
    return {DEFAULT: next(iter(signatures.values())), **signatures, **embed, **ids_signatures}


def head_signature(
    model: keras.Model, call: Callable[[Tensors], Tensors], example: Mapping[str, Any]
) -> Signature:
    """A signature from token ids to the outputs of a fine-tuned model, without text ops, for other runtimes.

    Inputs are int32 [B, S], or [B, C, S] for multiple choice.

    Args:
      model: fine-tuned model.
      call: function from the encoder's inputs to its outputs.
      example: request for the encoder with one row, as lists.
    """
    choices = getattr(model, "num_choices", None)
    # A span labeler with answerability needs a column for each start or end that it follows up.
    columns = max(getattr(model, "start_n_top", 0), getattr(model, "end_n_top", 0))
    shape: list[int | None] = [None, None] if choices is None else [None, choices, None]
    request = {}
    for name, row in example.items():
        wide = np.pad(row, [[0, 0], [0, max(columns - len(row[0]), 0)]])
        request[name] = (wide if choices is None else wide[np.newaxis].repeat(choices, 1)).tolist()
    return Signature(ids_signature(functools.partial(model.call_with_encoder, call), None, shape), request)


def ids_signature(
    call: Callable[[Tensors], Tensors],
    names: Sequence[str] | None = ("pooled_output", "sequence_output"),
    shape: Sequence[int | None] = (None, None),
) -> tf.types.experimental.GenericFunction:
    """A network as a function with one signature, for servers and other runtimes.

    Its inputs are `input_word_ids`, `input_mask` and `input_type_ids`, int32. Float outputs are cast to
    float32. The graph checks the shapes of inputs, since a server does not.

    Args:
      call: function from a dict of inputs to a dict of outputs.
      names: outputs to return. None: all.
      shape: shape of each input, [B, S] by default.
    """

    def compute(**ids: tf.Tensor) -> Tensors:
        outputs = call({name: tf.ensure_shape(tensor, shape) for name, tensor in ids.items()})
        tensors = {name: outputs[name] for name in names or outputs}
        return {name: tf.cast(x, tf.float32) if x.dtype.is_floating else x for name, x in tensors.items()}

    return create_signature(compute, {name: [0] for name in ENCODER_INPUTS}, shape).function
