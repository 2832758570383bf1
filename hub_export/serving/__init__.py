"""A serving model: signatures from text to answers."""

from __future__ import annotations

from albert_tf.checkpoints.models import task_of
from albert_tf.model import AlbertEncoder
from albert_tf.tasks import kind_of
from albert_tf.tasks.serving import DEFAULT, Served, Signature, encoder_signatures
from hub_export.serving.tokens import tokens_signature


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
