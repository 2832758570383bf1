"""The encoder with heads: one model a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.features import MLM_POSITIONS, check_sentence_objective
from albert_tf.model.encoder import AlbertEncoder
from albert_tf.model.heads import MaskedLanguageModel, SentenceRelationship


@keras.saving.register_keras_serializable("albert_tf")
class AlbertPretrainer(keras.Model):
    """The encoder with the two heads of pre-training.

    Args:
      config: the network's shape.
      sentence_objective: "sop" (sentence order), "nsp" (next sentence) or "none".
      **kwargs: of keras.Model, such as `name` and `dtype`.
    """

    def __init__(self, config: AlbertConfig, sentence_objective: str = "sop", **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.sentence_objective = check_sentence_objective(sentence_objective)
        self.encoder = AlbertEncoder(config, name="encoder", dtype=self.dtype_policy)
        self.mlm = MaskedLanguageModel(config, name="mlm")
        self.sentence = None if sentence_objective == "none" else SentenceRelationship(config)
        self.built = True  # every variable exists: counting, summary and loading need no first call

    def call(
        self,
        inputs: Mapping[str, tf.Tensor],
        training: bool | None = None,
        seed: tf.Tensor | None = None,
    ) -> dict[str, Any]:
        """The encoder's outputs and the logits of both heads.

        Args:
          inputs: the encoder's inputs, and `masked_lm_positions` [B, P] where MLM logits are wanted.
          training: whether dropout is on.
          seed: int32 [2] of the dropout; None draws one a call.
        Returns:
          The encoder's dict, `mlm_logits` float32 [B, P, V] where positions were given, and
          `sop_logits` or `nsp_logits` float32 [B, 2].
        Raises:
          ValueError, tf.errors.InvalidArgumentError: as the encoder.
        """
        outputs = dict(self.encoder(inputs, training=training, seed=seed))
        if MLM_POSITIONS in inputs:
            outputs["mlm_logits"] = self.mlm(
                outputs["sequence_output"],
                tf.convert_to_tensor(inputs[MLM_POSITIONS]),
                self.encoder.embeddings.word_embeddings,
            )
        if self.sentence is not None:
            outputs[f"{self.sentence_objective}_logits"] = self.sentence(outputs["pooled_output"])
        return outputs

    def get_config(self) -> dict[str, Any]:
        """What `from_config` makes the same, untrained model of."""
        return {
            **keras.layers.Layer.get_config(self),
            "config": self.config.to_dict(),
            "sentence_objective": self.sentence_objective,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> AlbertPretrainer:
        """An untrained model of the same shape."""
        return cls(**{**config, "config": AlbertConfig.from_dict(config["config"])})
