"""The signatures of fine-tuned models in memory.

That they answer what is predicted is tested in tests/albert_tf/tasks, and that an export does with pipelines.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.text.sentencepiece import SentencePieceTokenizer
from hub_export.serving_signatures import ServingModel, serving_signatures


class Asked(NamedTuple):
    """A model and its signatures by name."""

    model: Any
    tokenizer: SentencePieceTokenizer
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
    served = ServingModel(model, tokenizer, task["seq_length"], task)
    return Asked(model, tokenizer, serving_signatures(served))
