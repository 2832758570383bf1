"""The encoder with heads: one model a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.features import (
    ENCODER_INPUTS,
    FIRST,
    MASK,
    MLM_POSITIONS,
    TOKEN_PLACES,
    check_pooling,
    check_sentence_objective,
)
from albert_tf.models.encoder import AlbertEncoder
from albert_tf.models.heads import MaskedLanguageModel, OutputLayer, SentenceRelationship, mean_state
from albert_tf.models.layer import dropout
from albert_tf.utils.errors import InputError

Inputs = Mapping[str, tf.Tensor]
T = TypeVar("T", bound="TaskModel")


class TaskModel(keras.Model):
    """The encoder, its config, and what makes a Keras model of them; each subclass adds a head.

    Args:
      config: the network's shape.
      remat: gradient checkpointing: training computes each layer of the encoder again in the backward pass.
      fused: training compiles activations, softmax and LayerNorms of the encoder.
      **kwargs: of keras.Model, such as `name` and `dtype`.
    """

    # What the constructor takes besides the config; each is an attribute, too.
    arguments: tuple[str, ...] = ()

    def __init__(self, config: AlbertConfig, remat: bool = False, fused: bool = False, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.encoder = AlbertEncoder(config, remat, fused, name="encoder", dtype=self.dtype_policy)
        self.built = True  # every variable exists: counting, summary and loading need no first call

    def get_config(self) -> dict[str, Any]:
        """The arguments of `from_config` for the same, untrained model."""
        arguments = {name: getattr(self, name) for name in self.arguments}
        return {
            **keras.layers.Layer.get_config(self),
            "config": self.config.to_dict(),
            "remat": self.encoder.remat,
            "fused": self.encoder.fused,
            **arguments,
        }

    @classmethod
    def from_config(cls: type[T], config: dict[str, Any], custom_objects: Any = None) -> T:
        """An untrained model of the same shape."""
        return cls(**{**config, "config": AlbertConfig.from_dict(config["config"])})


@keras.saving.register_keras_serializable("albert_tf")
class AlbertPretrainer(TaskModel):
    """The encoder with the two heads of pre-training.

    Args:
      config: the network's shape.
      sentence_objective: "sop" (sentence order), "nsp" (next sentence) or "none".
      **kwargs: of TaskModel and keras.Model: `remat`, `name`, `dtype` and others.
    """

    arguments = ("sentence_objective",)

    def __init__(self, config: AlbertConfig, sentence_objective: str = "sop", **kwargs: Any):
        super().__init__(config, **kwargs)
        self.sentence_objective = check_sentence_objective(sentence_objective)
        self.mlm = MaskedLanguageModel(config, name="mlm")
        self.sentence = None if sentence_objective == "none" else SentenceRelationship(config)

    def call(
        self,
        inputs: Inputs,
        training: bool | None = None,
        seed: tf.Tensor | None = None,
        num_hidden_layers: int | None = None,
    ) -> dict[str, Any]:
        """The encoder's outputs and the logits of both heads.

        Args:
          inputs: the encoder's inputs, and `masked_lm_positions` [B, P] where MLM logits are wanted.
          training: whether dropout is on.
          seed: int32 [2] of the dropout; None draws one a call.
          num_hidden_layers: times that the shared layers are applied, where it is not the config's.
        Returns:
          The encoder's dict, `mlm_logits` float32 [B, P, V] where positions were given, and
          `sop_logits` or `nsp_logits` float32 [B, 2].
        Raises:
          ValueError, tf.errors.InvalidArgumentError: as the encoder.
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


class PooledModel(TaskModel):
    """The encoder, and a head that reads one state of a whole sequence.

    Args:
      config: the network's shape.
      pooling: "first", the pooled output, or "mean", the mean of all tokens' states. The pooler stays a part
        of the encoder; with "mean" no logit depends on it, so that it is not trainable and stays as it is.
      **kwargs: of TaskModel and keras.Model: `remat`, `name`, `dtype` and others.
    """

    def __init__(self, config: AlbertConfig, pooling: str = FIRST, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.pooling = check_pooling(pooling)
        # Else Keras' `fit` warns of variables without gradients.
        self.encoder.pooler.trainable = pooling == FIRST

    def pooled(self, inputs: Inputs, training: bool | None, seed: tf.Tensor | None) -> tf.Tensor:
        """The input of the head for sequences [B, S], after the classifier's dropout: [B, H]."""
        encoder_seed, head_seed = head_seeds(training, seed)
        outputs = self.encoder(inputs, training=training, seed=encoder_seed)
        if self.pooling == FIRST:
            state = outputs["pooled_output"]
        else:
            state = mean_state(outputs["sequence_output"], inputs.get(MASK))
        return dropout(state, self.config.classifier_dropout_prob, head_seed)


@keras.saving.register_keras_serializable("albert_tf")
class AlbertClassifier(PooledModel):
    """The encoder with logits over labels, or with one number, from one state of the sequence.

    Args:
      config: the network's shape.
      num_labels: number of labels, K; 1 is regression.
      pooling: which state: "first" or "mean", see PooledModel.
      **kwargs: of TaskModel and keras.Model: `remat`, `name`, `dtype` and others.
    """

    arguments = ("num_labels", "pooling")

    def __init__(self, config: AlbertConfig, num_labels: int, pooling: str = FIRST, **kwargs: Any):
        super().__init__(config, pooling, **kwargs)
        self.num_labels = positive("num_labels", num_labels)
        self.classifier = OutputLayer("classifier", num_labels, config)

    def call(
        self, inputs: Inputs, training: bool | None = None, seed: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """The logits alone: hidden states come from `self.encoder`.

        Args:
          inputs: the encoder's inputs.
          training: whether dropout is on, that of the classifier (`classifier_dropout_prob`) included.
          seed: int32 [2] of the dropout; None draws one a call.
        Returns:
          `logits` float32 [B, K].
        Raises:
          ValueError, tf.errors.InvalidArgumentError: as the encoder.
        """
        return {"logits": self.classifier(self.pooled(inputs, training, seed))}  # [B, K]


@keras.saving.register_keras_serializable("albert_tf")
class AlbertTokenClassifier(TaskModel):
    """The encoder with logits over labels for every token.

    Args:
      config: the network's shape.
      num_labels: number of labels, K.
      **kwargs: of TaskModel and keras.Model: `remat`, `name`, `dtype` and others.
    """

    arguments = ("num_labels",)

    def __init__(self, config: AlbertConfig, num_labels: int, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.num_labels = positive("num_labels", num_labels)
        self.classifier = OutputLayer("classifier", num_labels, config)

    def call(
        self, inputs: Inputs, training: bool | None = None, seed: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """The logits of every token, [CLS], [SEP] and padding included.

        Args:
          inputs: the encoder's inputs.
          training: whether dropout is on, that of the classifier (`classifier_dropout_prob`) included.
          seed: int32 [2] of the dropout; None draws one a call.
        Returns:
          `logits` float32 [B, S, K].
        Raises:
          ValueError, tf.errors.InvalidArgumentError: as the encoder.
        """
        encoder_seed, head_seed = head_seeds(training, seed)
        sequence = self.encoder(inputs, training=training, seed=encoder_seed)["sequence_output"]
        sequence = dropout(sequence, self.config.classifier_dropout_prob, head_seed)
        logits = self.classifier(tf.reshape(sequence, [-1, self.config.hidden_size]))  # [B·S, K]
        length = sequence.shape[1] or tf.shape(sequence)[1]
        return {"logits": tf.reshape(logits, [-1, length, self.num_labels])}  # [B, S, K]


@keras.saving.register_keras_serializable("albert_tf")
class AlbertMultipleChoice(PooledModel):
    """The encoder with one logit a choice, where each choice is a sequence of its own.

    Args:
      config: the network's shape.
      num_choices: choices an example, C.
      pooling: which state of a choice is read: "first" or "mean", see PooledModel.
      **kwargs: of TaskModel and keras.Model: `remat`, `name`, `dtype` and others.
    """

    arguments = ("num_choices", "pooling")

    def __init__(self, config: AlbertConfig, num_choices: int, pooling: str = FIRST, **kwargs: Any):
        super().__init__(config, pooling, **kwargs)
        self.num_choices = positive("num_choices", num_choices)
        self.classifier = OutputLayer("classifier", 1, config)

    def call(
        self, inputs: Inputs, training: bool | None = None, seed: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """The logits of the choices.

        Args:
          inputs: the encoder's inputs, each [B, C, S].
          training: whether dropout is on, that of the classifier (`classifier_dropout_prob`) included.
          seed: int32 [2] of the dropout; None draws one a call.
        Returns:
          `logits` float32 [B, C].
        Raises:
          ValueError: an input is not [B, C, S].
          ValueError, tf.errors.InvalidArgumentError: as the encoder.
        """
        flat = {name: self._flatten(name, inputs[name]) for name in ENCODER_INPUTS if name in inputs}
        if TOKEN_PLACES in inputs:  # the same places row by row
            flat[TOKEN_PLACES] = inputs[TOKEN_PLACES]
        logits = self.classifier(self.pooled(flat, training, seed))  # [B·C, 1]
        return {"logits": tf.reshape(logits, [-1, self.num_choices])}  # [B, C]

    def _flatten(self, name: str, values: tf.Tensor) -> tf.Tensor:
        tensor = tf.convert_to_tensor(values)
        if not tensor.shape.is_compatible_with([None, self.num_choices, None]):
            raise InputError(
                f"{name} has shape {tensor.shape}: it must be [batch, {self.num_choices}, length]"
            )
        # Where shapes are known only when it runs.
        tensor = tf.ensure_shape(tensor, [None, self.num_choices, None])
        return tf.reshape(tensor, [-1, tensor.shape[2] or tf.shape(tensor)[2]])  # [B·C, S]


def positive(name: str, value: int) -> int:
    """The value itself, or a ValueError unless it is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}={value!r} must be a whole number of at least 1")
    return value


def head_seeds(training: bool | None, seed: tf.Tensor | None) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """The encoder's seed and the head's, independent of each other; None where there is no dropout."""
    if not training:
        return None, None
    if seed is None:
        seed = tf.random.uniform([2], maxval=tf.int32.max, dtype=tf.int32)
    encoder_seed, head_seed = tf.unstack(tf.random.split(seed, 2, alg="philox"))
    return encoder_seed, head_seed
