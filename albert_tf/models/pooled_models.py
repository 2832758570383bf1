"""Models with logits of one state of a whole sequence: classifiers, regression, multiple choice."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.features import ENCODER_INPUTS, FIRST, MASK, MEAN, TOKEN_PLACES, check_pooling
from albert_tf.models.encoder import Inputs
from albert_tf.models.exits import ExitClassifiers, call_with_patience
from albert_tf.models.heads import OutputLayer, biased_logits, mean_state
from albert_tf.models.layer import dropout
from albert_tf.models.task_models import TaskModel, check_pooler, positive
from albert_tf.utils.errors import InputError


class PooledModel(TaskModel):
    """The encoder, and logits of one state of a whole sequence.

    Args:
      config: the network's shape.
      units: number of logits, K.
      pooling: "first", the pooled output, or "mean", the mean of all tokens' states. The pooler stays a part
        of the encoder; with "mean" no logit depends on it, so that it is not trainable and stays as it is.
      early_exit: True for a classifier after each layer, which all read states of this pooling; then there
        are `exit_logits`, too, and `call_with_patience`.
      exit_threshold: numbers of two layers that differ by less agree, where the one logit is a number.
      **kwargs: of `NetworkModel`.
    """

    rows_each = 1  # sequences of an example

    def __init__(
        self,
        config: AlbertConfig,
        units: int,
        pooling: str,
        early_exit: bool,
        exit_threshold: float,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        self.pooling = check_pooling(pooling)
        if pooling == FIRST:
            check_pooler(config, f'pooling="{FIRST}"', f'"{MEAN}"')
        elif self.encoder.pooler is not None:
            self.encoder.pooler.trainable = False  # else Keras' `fit` warns of variables without gradients
        self.early_exit, self.exit_threshold = early_exit, exit_threshold
        self.exits = ExitClassifiers(units, config) if early_exit else None
        self.classifier = OutputLayer("classifier", units, config)

    def head(self, inputs: Inputs, outputs: dict[str, Any], seed: tf.Tensor | None) -> dict[str, tf.Tensor]:
        """`logits` float32 [B, K]; with early_exit `exit_logits` [B, L, K], too, if there are all states."""
        rate, mask = self.config.classifier_dropout_prob, inputs.get(MASK)
        if self.exits is not None and "encoder_outputs" in outputs:
            inner = self.config.inner_group_num
            states = [
                self._state(sequence, mask) for sequence in outputs["encoder_outputs"][inner - 1 :: inner]
            ]
            x = dropout(tf.stack(states, axis=1), rate, seed)  # [B, L, H]
            logits = self.classifier(x[:, -1])
            exit_logits = tf.concat([self.exits(x[:, :-1]), logits[:, tf.newaxis]], axis=1)
            return {"logits": logits, "exit_logits": exit_logits}
        if self.pooling == FIRST:
            state = outputs["pooled_output"]
        else:
            state = mean_state(outputs["sequence_output"], mask)
        return {"logits": self.classifier(dropout(state, rate, seed))}

    def call_with_patience(self, inputs: Inputs, patience: tf.Tensor | int) -> dict[str, tf.Tensor]:
        """`logits` [B, K] of examples that leave early, and their `layers`, as in `exits.call_with_patience`.

        Labels, or options, agree where the likeliest is the same; numbers by the exit_threshold.
        """
        assert self.exits is not None
        own, last = self.exits, self.classifier
        weights = tf.concat([own.output_weights, last.output_weights[tf.newaxis]], axis=0)  # [L, K, H]
        biases = tf.concat([own.output_bias, last.output_bias[tf.newaxis]], axis=0)  # [L, K]
        num_logits = weights.shape[1] * self.rows_each

        def logits_of(layer: tf.Tensor, sequence: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
            logits = biased_logits(self._state(sequence, mask), weights[layer], biases[layer])
            return tf.reshape(logits, [-1, num_logits])

        def agree(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
            if num_logits == 1:
                return tf.abs(a - b)[:, 0] < self.exit_threshold
            return tf.argmax(a, axis=1) == tf.argmax(b, axis=1)

        return call_with_patience(
            self.encoder, inputs, patience, logits_of, agree, num_logits, self.rows_each
        )

    def _state(self, sequence: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """The state [B, H] that a classifier reads of hidden states [B, S, H]."""
        return self.encoder.pooled(sequence) if self.pooling == FIRST else mean_state(sequence, mask)


@keras.saving.register_keras_serializable("albert_tf")
class AlbertClassifier(PooledModel):
    """The encoder with `logits` [B, K] over labels, or with one number, from one state of the sequence.

    Args:
      config: the network's shape.
      num_labels: number of labels, K; 1 is regression.
      pooling: of `PooledModel`.
      early_exit: of `PooledModel`.
      exit_threshold: of `PooledModel`.
      **kwargs: of `NetworkModel`.
    """

    arguments = ("num_labels", "pooling", "early_exit", "exit_threshold")

    def __init__(
        self,
        config: AlbertConfig,
        num_labels: int,
        pooling: str = FIRST,
        early_exit: bool = False,
        exit_threshold: float = 0.0,
        **kwargs: Any,
    ):
        units = positive("num_labels", num_labels)
        super().__init__(config, units, pooling, early_exit, exit_threshold, **kwargs)
        self.num_labels = num_labels


@keras.saving.register_keras_serializable("albert_tf")
class AlbertMultipleChoice(PooledModel):
    """The encoder with one logit a choice: `logits` [B, C] of inputs [B, C, S].

    Args:
      config: the network's shape.
      num_choices: choices an example, C.
      pooling: of `PooledModel`.
      early_exit: of `PooledModel`.
      **kwargs: of `NetworkModel`.
    """

    arguments = ("num_choices", "pooling", "early_exit")

    def __init__(
        self,
        config: AlbertConfig,
        num_choices: int,
        pooling: str = FIRST,
        early_exit: bool = False,
        **kwargs: Any,
    ):
        super().__init__(config, 1, pooling, early_exit, 0.0, **kwargs)
        self.num_choices = self.rows_each = positive("num_choices", num_choices)

    def call(
        self, inputs: Inputs, training: bool | None = None, seed: tf.Tensor | None = None
    ) -> dict[str, Any]:
        """The logits of the choices; arguments and errors are those of `TaskModel.call`."""
        flat = {name: self._flatten(name, inputs[name]) for name in ENCODER_INPUTS if name in inputs}
        if TOKEN_PLACES in inputs:  # the same places row by row
            flat[TOKEN_PLACES] = inputs[TOKEN_PLACES]
        outputs = super().call(flat, training, seed)
        found = {"logits": tf.reshape(outputs["logits"], [-1, self.num_choices])}  # [B, C]
        if self.exits is not None:  # [B·C, L, 1] of all layers
            logits = tf.reshape(outputs["exit_logits"], [-1, self.num_choices, self.config.num_hidden_layers])
            found["exit_logits"] = tf.transpose(logits, [0, 2, 1])  # [B, L, C]
        return found

    def _flatten(self, name: str, values: tf.Tensor) -> tf.Tensor:
        tensor = tf.convert_to_tensor(values)
        if not tensor.shape.is_compatible_with([None, self.num_choices, None]):
            raise InputError(
                f"{name} has shape {tensor.shape}: it must be [batch, {self.num_choices}, length]"
            )
        # Where shapes are known only when it runs.
        tensor = tf.ensure_shape(tensor, [None, self.num_choices, None])
        return tf.reshape(tensor, [-1, tensor.shape[2] or tf.shape(tensor)[2]])  # [B·C, S]
