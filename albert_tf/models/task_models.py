"""The encoder with heads: one model a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.features import ENCODER_INPUTS, MLM_POSITIONS, SENTENCE_OBJECTIVES
from albert_tf.models.encoder import AlbertEncoder, Inputs, NetworkModel
from albert_tf.models.heads import MaskedLanguageModel, OutputLayer
from albert_tf.models.layer import drawn_seed, dropout
from albert_tf.utils.checks import check_choice, check_range, check_type
from albert_tf.utils.errors import InputError


class TaskModel(NetworkModel):
    """The encoder and a head; the arguments of every subclass begin with those of `NetworkModel`."""

    def __init__(self, config: AlbertConfig, remat: bool = False, fused: bool = False, **kwargs: Any):
        super().__init__(config, remat, fused, **kwargs)
        self.encoder = AlbertEncoder(config, remat, fused, name="encoder", dtype=self.dtype_policy)

    def call(
        self, inputs: Inputs, training: bool | None = None, seed: tf.Tensor | None = None
    ) -> dict[str, Any]:
        """The outputs of the head; hidden states come from `self.encoder`.

        Arguments and errors are those of `AlbertEncoder.call`. Dropout is also that of the head
        (`classifier_dropout_prob`); the seeds of both are independent.
        """
        encoder_seed, head_seed = head_seeds(training, seed)
        outputs = self.encoder(inputs, training=training, seed=encoder_seed)
        return self.head(inputs, outputs, head_seed)

    def head(self, inputs: Inputs, outputs: dict[str, Any], seed: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """The outputs of the head, by the model's inputs and the encoder's outputs; no seed, no dropout."""
        raise NotImplementedError

    def with_encoder(self, encode: Callable[[Inputs], Any], inputs: Inputs) -> dict[str, tf.Tensor]:
        """The outputs of the model's inputs, where a function computes the encoder's; without dropout."""
        return self.head(inputs, encode(inputs), None)


@keras.saving.register_keras_serializable("albert_tf")
class AlbertPretrainer(TaskModel):
    """The encoder with the two heads of pre-training.

    Args:
      config: the network's shape.
      sentence_objective: "sop" (sentence order), "nsp" (next sentence) or "none".
      **kwargs: of `NetworkModel`.
    """

    arguments = ("sentence_objective",)
    inputs_in_order = (*ENCODER_INPUTS, MLM_POSITIONS)

    def __init__(self, config: AlbertConfig, sentence_objective: str = "sop", **kwargs: Any):
        super().__init__(config, **kwargs)
        check_choice("sentence_objective", sentence_objective, SENTENCE_OBJECTIVES)
        self.sentence_objective = sentence_objective
        if sentence_objective != "none":
            check_pooler(config, f'sentence_objective="{sentence_objective}"', '"none"')
        self.mlm = MaskedLanguageModel(config, name="mlm")
        self.sentence = (
            None if sentence_objective == "none" else OutputLayer("cls/seq_relationship", 2, config)
        )

    def call(
        self,
        inputs: Inputs,
        training: bool | None = None,
        seed: tf.Tensor | None = None,
        num_hidden_layers: int | None = None,
    ) -> dict[str, Any]:
        """The encoder's outputs and the logits of both heads, which have no dropout.

        Arguments and errors are those of `AlbertEncoder.call`.

        Returns:
          The encoder's dict, `mlm_logits` float32 [B, P, V] where `masked_lm_positions` [B, P] is among the
          inputs, and `sop_logits` or `nsp_logits` float32 [B, 2].
        """
        outputs = dict(
            self.encoder(inputs, training=training, seed=seed, num_hidden_layers=num_hidden_layers)
        )
        if MLM_POSITIONS in inputs:
            outputs["mlm_logits"] = self.mlm(
                outputs["sequence_output"],
                tf.convert_to_tensor(inputs[MLM_POSITIONS]),
                self.encoder.embeddings.word_embeddings,
            )
        if self.sentence is not None:
            outputs[f"{self.sentence_objective}_logits"] = self.sentence(outputs["pooled_output"])
        return outputs


@keras.saving.register_keras_serializable("albert_tf")
class AlbertTokenClassifier(TaskModel):
    """The encoder with `logits` [B, S, K] over labels for every token, [CLS], [SEP] and padding included.

    Args:
      config: the network's shape.
      num_labels: number of labels, K.
      **kwargs: of `NetworkModel`.
    """

    arguments = ("num_labels",)

    def __init__(self, config: AlbertConfig, num_labels: int, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.num_labels = positive("num_labels", num_labels)
        self.classifier = OutputLayer("classifier", num_labels, config)

    def head(self, inputs: Inputs, outputs: dict[str, Any], seed: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """`logits` float32 [B, S, K]."""
        sequence = dropout(outputs["sequence_output"], self.config.classifier_dropout_prob, seed)
        logits = self.classifier(tf.reshape(sequence, [-1, self.config.hidden_size]))  # [B·S, K]
        length = sequence.shape[1] or tf.shape(sequence)[1]
        return {"logits": tf.reshape(logits, [-1, length, self.num_labels])}  # [B, S, K]


def check_pooler(config: AlbertConfig, choice: str, other: str) -> None:
    """InputError for a network without a pooler, whose output the choice reads."""
    if config.pooler == "none":
        raise InputError(f'{choice} reads the pooled output, and pooler="none": choose {other}, or a pooler')


def positive(name: str, value: int) -> int:
    """The value itself; InputError unless it is a whole number of at least 1."""
    check_type(name, "int", value)
    check_range(name, value, at_least=1)
    return value


def head_seeds(training: bool | None, seed: tf.Tensor | None) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """The encoder's seed and the head's, independent of each other; None where there is no dropout."""
    if not training:
        return None, None
    encoder_seed, head_seed = tf.unstack(tf.random.split(drawn_seed(seed), 2, alg="philox"))
    return encoder_seed, head_seed
