"""A serving model: signatures from text to answers."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf
import tf_keras as keras

from albert_tf.checkpoints.models import task_of
from albert_tf.features import ENCODER_INPUTS
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.tasks import kind_of
from albert_tf.tasks.serving import DEFAULT, Served, Signature, Tensors, encoder_signatures
from albert_tf.tokenizers.vocabulary import ALBERT_IDS


def serving_signatures(served: Served) -> dict[str, Signature]:
    """Signatures of a model by name.

    The ranks of the inputs are checked in the graph: a server does not compare them with the signature.

    Args:
      served: the model, and what its texts go through.
    Returns:
      `tokens`, from the encoder's inputs int32 [B, S] to `pooled_output` float32 [B, H] and `sequence_output`
      [B, S, H]; those of the kind of task; and `serving_default`, the first of these, which a request that
      names none gets.
    Raises:
      ValueError: task.json does not fit the model, or the longest input is too short for the task.
    """
    if isinstance(served.model, AlbertEncoder):
        signatures = encoder_signatures(served)
    else:
        signatures = kind_of({**served.task, **task_of(served.model)}).signatures(served)
    first = next(iter(signatures.values()))
    return {DEFAULT: first, **signatures, "tokens": tokens_signature(served.model)}


def tokens_signature(model: keras.Model) -> Signature:
    """The encoder of a model, as `ids_signature` has it."""
    encoder = model if isinstance(model, AlbertEncoder) else model.encoder
    function = ids_signature(lambda inputs: encoder(inputs, training=False))
    ids = [[ALBERT_IDS.start, ALBERT_IDS.separator]]
    return Signature(function, dict(zip(ENCODER_INPUTS, (ids, [[1, 1]], [[0, 0]]), strict=True)))


def ids_signature(call: Callable[[Tensors], Tensors]) -> tf.types.experimental.GenericFunction:
    """The encoder for those who know signatures only, such as servers and other runtimes.

    Args:
      call: the encoder, from its inputs by name to its outputs.
    Returns:
      From `input_word_ids`, `input_mask`, `input_type_ids` int32 [B, S] to float32 `pooled_output` [B, H] and
      `sequence_output` [B, S, H]. Ranks are checked in the graph: a server does not compare them.
    """

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32, name) for name in ENCODER_INPUTS])
    def answer(input_word_ids: tf.Tensor, input_mask: tf.Tensor, input_type_ids: tf.Tensor) -> Tensors:
        ids = [
            tf.ensure_shape(tensor, [None, None]) for tensor in (input_word_ids, input_mask, input_type_ids)
        ]
        outputs = call(dict(zip(ENCODER_INPUTS, ids, strict=True)))
        return {name: tf.cast(outputs[name], tf.float32) for name in ("pooled_output", "sequence_output")}

    return answer
