"""Fine-tuned runs and what came back of their exports, and what the readers and the models make of data."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import albert_tf
from albert_tf.features import ENCODER_INPUTS
from albert_tf.tasks.examples.batches import task_batches
from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from hub_export.check.modules import check
from hub_export.export import export


class Exported(NamedTuple):
    """A model in memory and the serving model of its run, loaded."""

    model: Any
    tokenizer: PieceTokenizer
    folder: Path
    loaded: Any

    def ask(self, signature, **inputs):
        """The answers of a signature as arrays."""
        outputs = self.loaded.signatures[signature](**{n: tf.constant(v) for n, v in inputs.items()})
        return {name: tensor.numpy() for name, tensor in outputs.items()}


def exported(model, vocabulary, folder, task):
    """What the export of a run of a model is, checked; its weights are large, and no bias is zero."""
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 2], stddev=0.2))
    albert_tf.save(model, folder / "run", vocabulary=vocabulary, task=task)
    *_, written = export(folder / "run", folder / "modules", check=False)
    check(written)
    tokenizer = PieceTokenizer(Vocabulary.from_file(vocabulary))
    return Exported(model, tokenizer, written, tf.saved_model.load(str(written)))


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
