"""The models of pre-training and of fine-tuning: an encoder and a head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.constants import (
    ENCODER_INPUTS,
    FIRST,
    INPUT_MASK,
    MEAN,
    MLM_POSITIONS,
    POOLINGS,
    SENTENCE_OBJECTIVES,
    TOKEN_POSITIONS,
)
from albert_tf.errors import InputError, check_choice, check_whole
from albert_tf.models.early_exit import ExitClassifiers
from albert_tf.models.encoder import AlbertEncoder, ModelInputs, NetworkModel, Outputs, index_tensor
from albert_tf.models.heads import IMPOSSIBLE, MaskedLanguageModel, OutputLayer, mean_state
from albert_tf.models.layers import Seed, draw_seed, dropout, sizes


class TaskModel(NetworkModel):
    """The encoder and a head; the arguments of every subclass begin with those of `NetworkModel`."""

    has_head_dropout = True
    reads_pooled_only = False  # True if the head reads no other states

    def __init__(self, config: AlbertConfig, remat: bool = False, fused: bool = False, **kwargs: Any):
        super().__init__(config, remat, fused, **kwargs)
        self.encoder = AlbertEncoder(config, remat, fused, name="encoder", dtype=self.dtype_policy)

    def call(
        self,
        inputs: ModelInputs,
        training: bool | None = None,
        seed: Seed = None,
        num_hidden_layers: int | None = None,
    ) -> Outputs:
        """Computes the outputs of the head. Call the model itself: `model(inputs)`.

        Args:
          inputs: a dict of integer tensors [B, S] (multiple choice: [B, C, S]). `input_word_ids` is needed.
            `input_mask` has 1 for tokens and 0 for padding (default: ones). `input_type_ids` has 0 for the
            first segment and 1 for the second (default: zeros). A model may know further inputs; its class
            names them.
          training: True to apply dropout.
          seed: int32 [2], the seed of dropout in the encoder and the head. None draws one for each call.
          num_hidden_layers: times to apply the shared layers. None: as the config says. Needs
            `sharing="all"` and no early exits.
        Returns:
          A dict of the outputs that the class names. Hidden states come from `model.encoder`.
        Raises:
          InputError: an input is missing, shapes disagree, S exceeds `max_position_embeddings`, or
            `num_hidden_layers` would need other parameters.
          tf.errors.InvalidArgumentError: the same where shapes are known only when the graph runs; or an id
            is outside the vocabulary, where the device can tell (see `AlbertEncoder.call`).
        """
        rows = self.inputs_to_rows(self.name_inputs(inputs))
        depth = self.config.num_hidden_layers
        if self.early_exit and num_hidden_layers not in (None, depth):
            raise InputError(f"num_hidden_layers={num_hidden_layers}: exits are of {depth} layers")
        seed, head_seed = split_seed(training, seed) if self.has_head_dropout else (seed, None)
        options = {"num_hidden_layers": num_hidden_layers, "pooled_only": self.reads_pooled_only}
        outputs = self.encoder(rows, training=training, seed=seed, **options)
        return self.rows_to_outputs(self.head(rows, outputs, head_seed))

    def head(self, inputs: ModelInputs, outputs: Outputs, seed: Seed) -> Outputs:
        """The head's outputs, from the inputs and the encoder's outputs. Without a seed no dropout."""
        raise NotImplementedError

    def call_with_encoder(self, encode: Callable[[ModelInputs], Any], inputs: ModelInputs) -> Outputs:
        """Computes the model's outputs without dropout; `encode` computes those of the encoder."""
        rows = self.inputs_to_rows(inputs)
        return self.rows_to_outputs(self.head(rows, encode(rows), None))

    def inputs_to_rows(self, inputs: ModelInputs) -> ModelInputs:
        """The encoder's inputs: the model's, unless an example has several rows."""
        return inputs

    def rows_to_outputs(self, outputs: Outputs) -> Outputs:
        """Joins the outputs of rows into those of examples."""
        return outputs


@keras.saving.register_keras_serializable("albert_tf")
class AlbertPretrainer(TaskModel):
    """The encoder with the two heads of pre-training: masked tokens and sentences.

    Inputs: the inputs of `AlbertEncoder`, and `masked_lm_positions`, integer [B, P]: the positions of masked
    tokens.

    Outputs: the outputs of `AlbertEncoder`; `mlm_logits` float32 [B, P, V], if there are
    `masked_lm_positions`; `sop_logits` or `nsp_logits` float32 [B, 2]. The heads have no dropout.

    Args:
      config: architecture of the network.
      sentence_objective: "sop" (sentence order), "nsp" (next sentence) or "none".
      **kwargs: `remat` and `fused` of `AlbertEncoder`, and arguments of `keras.Model`, such as `name` and
        `dtype`.
    Raises:
      InputError: the sentence objective is unknown, or needs a pooler that the network does not have.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> config = albert_tf.AlbertConfig(hidden_size=24, num_hidden_layers=2, vocab_size=9)
      >>> model = albert_tf.AlbertPretrainer(config)
      >>> inputs = {"input_word_ids": tf.constant([[2, 4, 3]]), "masked_lm_positions": tf.constant([[1]])}
      >>> model(inputs)["mlm_logits"].shape, model(inputs)["sop_logits"].shape
      (TensorShape([1, 1, 9]), TensorShape([1, 2]))
    """

    arguments = ("sentence_objective",)
    inputs_in_order = (*ENCODER_INPUTS, MLM_POSITIONS)
    has_head_dropout = False

    def __init__(self, config: AlbertConfig, sentence_objective: str = "sop", **kwargs: Any):
        super().__init__(config, **kwargs)
        check_choice("sentence_objective", sentence_objective, SENTENCE_OBJECTIVES)
        self.sentence_objective = sentence_objective
        self.mlm, self.sentence = MaskedLanguageModel(config, name="mlm"), None
        if sentence_objective != "none":
            check_pooler(config, f'sentence_objective="{sentence_objective}"', '"none"')
            self.sentence = OutputLayer("cls/seq_relationship", 2, config)

    def head(self, inputs: ModelInputs, outputs: Outputs, seed: Seed) -> Outputs:
        """The encoder's outputs and the logits of both heads."""
        outputs = dict(outputs)
        if MLM_POSITIONS in inputs:
            positions = index_tensor(inputs[MLM_POSITIONS])
            words = self.encoder.embeddings.word_embeddings
            outputs["mlm_logits"] = self.mlm(outputs["sequence_output"], positions, words)
        if self.sentence is not None:
            outputs[f"{self.sentence_objective}_logits"] = self.sentence(outputs["pooled_output"])
        return outputs


@keras.saving.register_keras_serializable("albert_tf")
class AlbertTokenClassifier(TaskModel):
    """The encoder with a classifier of each token, for tagging.

    Inputs: the inputs of `AlbertEncoder`.

    Outputs: `logits` float32 [B, S, K], for [CLS], [SEP] and padding, too.

    Args:
      config: architecture of the network.
      num_labels: number of labels, K.
      **kwargs: `remat` and `fused` of `AlbertEncoder`, and arguments of `keras.Model`, such as `name` and
        `dtype`.
    Raises:
      InputError: `num_labels` is not a whole number of at least 1.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> config = albert_tf.AlbertConfig(hidden_size=24, num_hidden_layers=2, vocab_size=9)
      >>> model = albert_tf.AlbertTokenClassifier(config, num_labels=5)
      >>> model({"input_word_ids": tf.constant([[2, 7, 3]])})["logits"].shape
      TensorShape([1, 3, 5])
    """

    arguments = ("num_labels",)

    def __init__(self, config: AlbertConfig, num_labels: int, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.num_labels = check_whole("num_labels", num_labels, at_least=1)
        self.classifier = OutputLayer("classifier", num_labels, config)

    def head(self, inputs: ModelInputs, outputs: Outputs, seed: Seed) -> Outputs:
        """`logits` float32 [B, S, K]."""
        sequence = dropout(outputs["sequence_output"], self.config.classifier_dropout_prob, seed)
        logits = self.classifier(tf.reshape(sequence, [-1, self.config.hidden_size]))  # [B·S, K]
        return {"logits": tf.reshape(logits, [-1, sizes(sequence)[1], self.num_labels])}  # [B, S, K]


def check_pooler(config: AlbertConfig, choice: str, other: str) -> None:
    """Raises InputError if the network lacks the pooler that a choice reads."""
    if config.pooler == "none":
        raise InputError(f'{choice} reads the pooled output, and pooler="none": choose {other}, or a pooler')


def split_seed(training: bool | None, seed: Seed) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """Independent seeds for the encoder and the head. None without dropout."""
    if not training:
        return None, None
    encoder_seed, head_seed = tf.unstack(tf.random.split(draw_seed(seed), 2, alg="philox"))
    return encoder_seed, head_seed


def pooled_head_names(task: Mapping[str, Any]) -> list[str]:
    """Names of the head's parts in the tables of variables, for a `PooledModel`."""
    return ["exits", "classifier"] if task.get("early_exit") else ["classifier"]


class PooledModel(TaskModel):
    """The encoder, and logits computed from one state of a whole sequence.

    Args:
      config: architecture of the network.
      units: number of logits, K.
      pooling: "first", the pooled output, or "mean", the mean of all tokens' states. The pooler stays a part
        of the encoder. With "mean" no logit depends on it, so it is not trainable.
      early_exit: True for a classifier after each layer. The outputs then include `exit_logits`, and
        `call_with_early_exit` accepts the model.
      exit_threshold: for regression, two layers agree if their numbers differ by less.
      **kwargs: arguments of `NetworkModel`.
    """

    rows_per_example = 1  # sequences in an example

    def __init__(
        self,
        config: AlbertConfig,
        units: int,
        pooling: str,
        early_exit: bool = False,
        exit_threshold: float = 0.0,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        check_choice("pooling", pooling, POOLINGS)
        self.pooling = pooling
        if pooling == FIRST:
            check_pooler(config, f'pooling="{FIRST}"', f'"{MEAN}"')
        elif self.encoder.pooler is not None:
            self.encoder.pooler.trainable = False  # else Keras' `fit` warns of variables without gradients
        self.reads_pooled_only = pooling == FIRST and not early_exit
        self.early_exit, self.exit_threshold = early_exit, exit_threshold
        self.exits = ExitClassifiers(units, config) if early_exit else None
        self.classifier = OutputLayer("classifier", units, config)

    def head(self, inputs: ModelInputs, outputs: Outputs, seed: Seed) -> Outputs:
        """`logits` float32 [B, K]; with early_exit and all layers' states also `exit_logits` [B, L, K]."""
        rate, mask = self.config.classifier_dropout_prob, inputs.get(INPUT_MASK)
        if self.exits is not None and "encoder_outputs" in outputs:
            inner = self.config.inner_group_num
            layers = outputs["encoder_outputs"][inner - 1 :: inner]
            x = tf.stack([self.pool_states(sequence, mask) for sequence in layers], axis=1)  # [B, L, H]
            x = dropout(x, rate, seed)
            logits = self.classifier(x[:, -1])
            exit_logits = tf.concat([self.exits(x[:, :-1]), logits[:, tf.newaxis]], axis=1)
            outputs = {"logits": logits, "exit_logits": exit_logits}
            return {name: self.mask_logits(values, mask) for name, values in outputs.items()}
        is_first = self.pooling == FIRST
        state = outputs["pooled_output"] if is_first else mean_state(outputs["sequence_output"], mask)
        return {"logits": self.mask_logits(self.classifier(dropout(state, rate, seed)), mask)}

    def mask_logits(self, logits: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Lowers logits [B, …] of inputs whose mask [B, S] is all zeros (missing choices)."""
        return logits

    def pool_states(self, sequence: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Pools hidden states [B, S, H] to the state [B, H] that a classifier reads."""
        return self.encoder.pool(sequence[:, 0]) if self.pooling == FIRST else mean_state(sequence, mask)


@keras.saving.register_keras_serializable("albert_tf")
class AlbertClassifier(PooledModel):
    """The encoder with a classifier, or a regression, of each sequence.

    Inputs: the inputs of `AlbertEncoder`.

    Outputs: `logits` float32 [B, K]. With `early_exit` also `exit_logits` float32 [B, L, K], one row for each
    layer; in Keras' `fit` they need targets, too, or the exits stay at random.

    Args:
      config: architecture of the network.
      num_labels: number of labels, K. 1 is regression.
      pooling: what the classifier reads: "first", the pooled output, or "mean", the mean of the last states
        of all tokens. With "mean" the pooler is not trained.
      **kwargs: `early_exit` (True for a classifier after each layer), `exit_threshold` (float: for
        regression, two layers agree if their numbers differ by less), `remat` and `fused` of `AlbertEncoder`,
        and arguments of `keras.Model`, such as `name` and `dtype`.
    Raises:
      InputError: a value is impossible, or `pooling="first"` and the network has no pooler.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> config = albert_tf.AlbertConfig(hidden_size=24, num_hidden_layers=2, vocab_size=9)
      >>> model = albert_tf.AlbertClassifier(config, num_labels=2)
      >>> model({"input_word_ids": tf.constant([[2, 7, 3]])})["logits"].shape
      TensorShape([1, 2])
    """

    arguments = ("num_labels", "pooling", "early_exit", "exit_threshold")

    def __init__(self, config: AlbertConfig, num_labels: int, pooling: str = FIRST, **kwargs: Any):
        num_labels = check_whole("num_labels", num_labels, at_least=1)
        super().__init__(config, num_labels, pooling, **kwargs)
        self.num_labels = num_labels


@keras.saving.register_keras_serializable("albert_tf")
class AlbertMultipleChoice(PooledModel):
    """The encoder with one logit for each choice of a question.

    Inputs: the inputs of `AlbertEncoder`, of the shape [B, C, S]. If a question has fewer than C choices, the
    missing ones have an `input_mask` of zeros.

    Outputs: `logits` float32 [B, C]. With `early_exit` also `exit_logits` float32 [B, L, C], one row for each
    layer; in Keras' `fit` they need targets, too, or the exits stay at random.

    Args:
      config: architecture of the network.
      num_choices: choices of a question, C.
      pooling: what the head reads: "first", the pooled output, or "mean", the mean of the last states of all
        tokens. With "mean" the pooler is not trained.
      **kwargs: `early_exit` (True for a head after each layer), `remat` and `fused` of `AlbertEncoder`, and
        arguments of `keras.Model`, such as `name` and `dtype`.
    Raises:
      InputError: a value is impossible, or `pooling="first"` and the network has no pooler.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> config = albert_tf.AlbertConfig(hidden_size=24, num_hidden_layers=2, vocab_size=9)
      >>> model = albert_tf.AlbertMultipleChoice(config, num_choices=2)
      >>> model({"input_word_ids": tf.constant([[[2, 7, 3], [2, 8, 3]]])})["logits"].shape
      TensorShape([1, 2])
    """

    arguments = ("num_choices", "pooling", "early_exit")

    def __init__(self, config: AlbertConfig, num_choices: int, pooling: str = FIRST, **kwargs: Any):
        super().__init__(config, 1, pooling, **kwargs)
        self.num_choices = self.rows_per_example = check_whole("num_choices", num_choices, at_least=1)

    def inputs_to_rows(self, inputs: ModelInputs) -> ModelInputs:
        """Flattens the choices: one row for each, [B·C, S]."""
        rows = {name: self._rows(name, inputs[name]) for name in ENCODER_INPUTS if name in inputs}
        if TOKEN_POSITIONS in inputs:  # the same positions row by row
            rows[TOKEN_POSITIONS] = inputs[TOKEN_POSITIONS]
        return rows

    def rows_to_outputs(self, outputs: Outputs) -> Outputs:
        """Groups the logits of the choices by example."""
        grouped = {"logits": tf.reshape(outputs["logits"], [-1, self.num_choices])}  # [B, C]
        if "exit_logits" in outputs:  # [B·C, L, 1] of all layers
            logits = tf.reshape(outputs["exit_logits"], [-1, self.num_choices, self.config.num_hidden_layers])
            grouped["exit_logits"] = tf.transpose(logits, [0, 2, 1])  # [B, L, C]
        return grouped

    def mask_logits(self, logits: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Sets logits [B·C, …] to IMPOSSIBLE where the mask [B·C, S] is all zeros."""
        if mask is None:
            return logits
        is_choice = tf.reduce_any(tf.cast(mask, tf.bool), axis=1)  # [B·C]
        shape = [-1, *[1] * (logits.shape.rank - 1)]
        return tf.where(tf.reshape(is_choice, shape), logits, IMPOSSIBLE)

    def _rows(self, name: str, values: tf.Tensor) -> tf.Tensor:
        tensor, shape = tf.convert_to_tensor(values), [None, self.num_choices, None]
        if not tensor.shape.is_compatible_with(shape):
            expected = f"[batch, {self.num_choices}, length]"
            raise InputError(f"{name} has shape {tensor.shape}: it must be {expected}")
        tensor = tf.ensure_shape(tensor, shape)  # for shapes that are known only when the graph runs
        return tf.reshape(tensor, [-1, sizes(tensor)[2]])  # [B·C, S]
