"""A serving model: signatures from text to answers."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from albert_tf.checkpoints.models import task_of
from albert_tf.features import ENCODER_INPUTS
from albert_tf.models.encoder import with_pooled_output
from albert_tf.tasks import kind_of
from albert_tf.tasks.serving import DEFAULT, Served, Signature, Tensors, encoder_signatures

# The signature from token ids.
TOKENS = "tokens"


def serving_signatures(served: Served) -> dict[str, Signature]:
    """Signatures of a model by name.

    Those of the kind of task; `serving_default`, the first of these, which a request that names none gets;
    and `tokens`, the encoder's `ids_signature`. A ValueError says that task.json does not fit the model, or
    that the longest input is too short for the task.
    """
    model, encoder, ids = served.model, served.encoder, served.tokenizer.vocabulary.special_ids
    if model is encoder:
        signatures = encoder_signatures(served)
    else:
        signatures = kind_of({**served.task, **task_of(model)}).signatures(served)
    function = ids_signature(
        served.compiled or (lambda inputs: with_pooled_output(encoder(inputs, training=False)))
    )
    example = dict(zip(ENCODER_INPUTS, ([[ids.start, ids.separator]], [[1, 1]], [[0, 0]]), strict=True))
    first = next(iter(signatures.values()))
    return {DEFAULT: first, **signatures, TOKENS: Signature(function, example)}


def ids_signature(call: Callable[[Tensors], Tensors]) -> tf.types.experimental.GenericFunction:
    """The encoder for those who know signatures only, such as servers and other runtimes.

    It is from `input_word_ids`, `input_mask`, `input_type_ids` int32 [B, S] to float32 `pooled_output` [B, H]
    and `sequence_output` [B, S, H], of a call from inputs by name to outputs. Ranks are checked in the graph:
    a server does not compare them.
    """

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name) for name in ENCODER_INPUTS])
    def answer(input_word_ids: tf.Tensor, input_mask: tf.Tensor, input_type_ids: tf.Tensor) -> Tensors:
        given = input_word_ids, input_mask, input_type_ids
        ids = (tf.ensure_shape(tensor, [None, None]) for tensor in given)
        outputs = call(dict(zip(ENCODER_INPUTS, ids, strict=True)))
        return {name: tf.cast(outputs[name], tf.float32) for name in ("pooled_output", "sequence_output")}

    return answer
