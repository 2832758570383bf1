"""A model for TF Serving: signatures from text to answers, dense tensors in and out."""

from __future__ import annotations

from collections.abc import Callable

from albert_tf.model import (
    AlbertClassifier,
    AlbertEncoder,
    AlbertMultipleChoice,
    AlbertPretrainer,
    AlbertSpanLabeler,
    AlbertTokenClassifier,
)
from hub_export.serving.answering import answering_signatures
from hub_export.serving.choosing import choosing_signatures
from hub_export.serving.classification import classification_signatures
from hub_export.serving.pretraining import encoder_signatures, pretrainer_signatures
from hub_export.serving.signature import DEFAULT, Served, Signature
from hub_export.serving.tagging import tagging_signatures
from hub_export.serving.tokens import tokens_signature

# What each model answers.
SIGNATURES: dict[type, Callable[[Served], dict[str, Signature]]] = {
    AlbertEncoder: encoder_signatures,
    AlbertPretrainer: pretrainer_signatures,
    AlbertClassifier: classification_signatures,
    AlbertTokenClassifier: tagging_signatures,
    AlbertSpanLabeler: answering_signatures,
    AlbertMultipleChoice: choosing_signatures,
}


def serving_signatures(served: Served) -> dict[str, Signature]:
    """What a server answers for a model.

    The ranks of the inputs are checked in the graph: a server does not compare them with the signature.

    Args:
      served: the model, and what its texts go through.
    Returns:
      By name: `tokens`, from the encoder's inputs int32 [B, S] to `pooled_output` float32 [B, H] and
      `sequence_output` [B, S, H]; what the table's function for the model says; and `serving_default`, the
      first of these, which a request that names none gets.
    Raises:
      ValueError: task.json does not fit the model, or the longest input is too short for the task.
    """
    signatures = SIGNATURES[type(served.model)](served)
    first = next(iter(signatures.values()))
    return {DEFAULT: first, **signatures, "tokens": tokens_signature(served.model)}
