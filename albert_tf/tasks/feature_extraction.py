"""Feature extraction: embeddings of texts, for search and clustering."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import FIRST, INPUT_MASK, MEAN, POOLINGS, Tensors
from albert_tf.errors import check_choice, check_type
from albert_tf.models.heads import mean_state
from albert_tf.tasks.classification import TextTask
from albert_tf.tasks.examples import TextRecord, check_forms
from albert_tf.tasks.formats import Records
from albert_tf.tasks.serving import TEXT_EXAMPLE, ServingModel
from albert_tf.tasks.task import Arrays, Task

# Outputs of the signature, by the pooling.
_OUTPUTS = {MEAN: "embedding", FIRST: "first_token"}


class FeatureExtraction(Task):
    """Embeddings of texts, by the encoder of any model.

    Args:
      hidden_size: the length of an embedding, H.
      pooling: "mean" of the last hidden states of all tokens, or "first", the state of the first token.
      normalize: True for embeddings of length 1.
    """

    name = "feature_extraction"
    signature = "embed"
    inputs = ("text",)
    example = TEXT_EXAMPLE

    def __init__(self, hidden_size: int, pooling: str = MEAN, normalize: bool = False):
        super().__init__({})
        check_choice("pooling", pooling, POOLINGS)
        check_type("normalize", "bool", normalize)
        self.hidden_size, self.pooling, self.normalize = hidden_size, pooling, normalize

    def answer(self, served: ServingModel, text: tf.Tensor) -> Tensors:
        """Embeddings of texts, string [B], without normalisation.

        Returns `embedding`, the mean of the last hidden states of all tokens, with `[CLS]` and `[SEP]`, and
        `first_token`, the state of the first one: float32 [B, H] each. Long texts are cut to `seq_length`.
        """
        inputs = served.model_inputs(text)
        sequence = tf.cast(served.encode(inputs)["sequence_output"], tf.float32)  # [B, S, H]
        return {
            _OUTPUTS[MEAN]: mean_state(sequence, inputs[INPUT_MASK]),  # [B, H]
            _OUTPUTS[FIRST]: sequence[:, 0],  # [B, H]
        }

    def parse_input(self, value: Any, where: str) -> TextRecord:
        """Checks a text."""
        return TextTask.parse_input(value, where)

    def check_records(self, records: Records) -> None:
        """Raises an InputError unless all records are single texts."""
        check_forms(records, takes_pairs=False)

    def format_output(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> np.ndarray:
        """The embedding, float32 [H]."""
        embedding = outputs[_OUTPUTS[self.pooling]]
        return embedding / np.linalg.norm(embedding) if self.normalize else embedding

    def collect(self, answers: list[np.ndarray]) -> np.ndarray:
        """The embeddings of all texts, float32 [n, H]."""
        return np.array(answers, np.float32).reshape(-1, self.hidden_size)
