"""The signatures of fine-tuned models in memory, and what the readers and the models make of data.

That an export answers as they do is tested with pipelines.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.features import ENCODER_INPUTS
from albert_tf.tasks.examples.batches import task_batches
from albert_tf.tokenizers import PieceTokenizer
from hub_export.serving import Served, serving_signatures


class Asked(NamedTuple):
    """A model and its signatures by name."""

    model: Any
    tokenizer: PieceTokenizer
    signatures: Any

    def ask(self, signature, **inputs):
        """The answers of a signature as arrays; they have a row for each of the request's."""
        tensors = {name: tf.constant(value) for name, value in inputs.items()}
        outputs = self.signatures[signature].function(**tensors)
        rows = len(next(iter(tensors.values())))
        assert all(len(tensor) == rows for tensor in outputs.values())
        return {name: tensor.numpy() for name, tensor in outputs.items()}


def served(model, tokenizer, task):
    """The signatures of a model whose weights are large, and no bias is zero."""
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 2], stddev=0.2))
    return Asked(model, tokenizer, serving_signatures(Served(model, tokenizer, task["seq_length"], task)))


def outputs_of(model, rows, seq_length):
    """What a model answers to tokenised examples, in their order, padded to the longest sequence."""
    (batch,) = task_batches(rows, seq_length, len(rows), [seq_length], shuffle=False, repeat=False)
    order = np.argsort(batch["rows"].numpy())
    inputs = {name: tf.gather(batch[name], order) for name in ENCODER_INPUTS}
    outputs = model(inputs, training=False)
    return inputs, {name: tensor.numpy() for name, tensor in outputs.items()}


def softmax(logits):
    """Over the last axis."""
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)
