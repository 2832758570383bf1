"""The span labeler, a model that finds an answer in a context, and its head for run_squad_v2."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.constants import ENCODER_INPUTS, START_POSITIONS, TYPE_IDS
from albert_tf.errors import InputError, check_type, check_whole
from albert_tf.models.encoder import ModelInputs, Outputs, encoder_inputs, index_tensor
from albert_tf.models.heads import IMPOSSIBLE, OutputLayer
from albert_tf.models.layers import DenseLayer, Layer, LayerNorm, Seed, dropout, kernel_initializer, sizes
from albert_tf.models.task_models import TaskModel


class AnswerabilityHead(Layer):
    """A head for a start, an end that depends on the start, and a logit for "no answer".

    Args:
      config: architecture of the network.
      start_n_top: number of starts to follow up if no starts are given, I.
      end_n_top: number of ends to return for each of these starts, J.
    Source: `create_v2_model` of google-research/albert's squad_utils.py, with its variable names.
    """

    def __init__(self, config: AlbertConfig, start_n_top: int, end_n_top: int, **kwargs: Any):
        super().__init__(**kwargs)
        self.dropout_rate = config.classifier_dropout_prob
        self.start_n_top, self.end_n_top = start_n_top, end_n_top
        width = config.hidden_size
        self.start = DenseLayer("start_logits/dense", width, 1, config)
        self.end_transform = DenseLayer("end_logits/dense_0", 2 * width, width, config)
        self.end_norm = LayerNorm("end_logits/LayerNorm", width, config)
        self.end = DenseLayer("end_logits/dense_1", width, 1, config)
        self.answer_transform = DenseLayer("answer_class/dense_0", 2 * width, width, config)
        kernel = "answer_class/dense_1/kernel"
        self.answer_kernel = self.add_weight(kernel, [width, 1], kernel_initializer(config))

    def call(
        self,
        sequence: tf.Tensor,
        allowed: tf.Tensor,
        start_positions: tf.Tensor | None = None,
        seed: Seed = None,
    ) -> Outputs:
        """Computes log-probabilities of starts and ends. Where no answer may be, they are IMPOSSIBLE.

        Args:
          sequence: the encoder's sequence output [B, S, H].
          allowed: bool [B, S], True where an answer may start or end.
          start_positions: integer [B], the starts that the ends depend on. None: the likeliest starts.
          seed: int32 [2], for dropout before the logit of "no answer". None: no dropout.
        Returns:
          A dict. `no_answer_logits` float32 [B]: above 0 if no answer is the likelier.
          With `start_positions`: `start_logits` and `end_logits` float32 [B, S], which are log-probabilities.
          Without: `start_top_log_probs` float32 [B, I] and `start_top_index` int32 [B, I], the likeliest
            starts, the best first; `end_top_log_probs` float32 [B, I, J] and `end_top_index` int32 [B, I, J],
            the likeliest ends of each of these starts.
        Raises:
          InputError: the sequence has fewer than I or J tokens.
          tf.errors.InvalidArgumentError: the same where its length is known only when the graph runs; or a
            start is outside the sequence.
        """
        rows = tf.reshape(sequence, [-1, sequence.shape[-1]])  # [B·S, H]
        start_logits = tf.reshape(self.start(rows), tf.shape(sequence)[:2])  # [B, S]
        start_log_probs = _log_softmax(start_logits, allowed)
        no_answer = {"no_answer_logits": self._no_answer_logits(sequence, tf.exp(start_log_probs), seed)}
        if start_positions is not None:
            ends = self._end_log_probs(sequence, allowed, start_positions[:, tf.newaxis])  # [B, 1, S]
            return {"start_logits": start_log_probs, "end_logits": tf.squeeze(ends, axis=1), **no_answer}
        length = sequence.shape[1]
        if length is not None and length < max(self.start_n_top, self.end_n_top):
            raise InputError(
                f"sequences of {length} tokens are shorter than start_n_top={self.start_n_top} "
                f"or end_n_top={self.end_n_top}: pad them"
            )
        start_values, starts = tf.math.top_k(start_log_probs, self.start_n_top)  # [B, I]
        end_log_probs = self._end_log_probs(sequence, allowed, starts)  # [B, I, S]
        end_values, ends = tf.math.top_k(end_log_probs, self.end_n_top)  # [B, I, J]
        return {
            "start_top_log_probs": start_values,
            "start_top_index": starts,
            "end_top_log_probs": end_values,
            "end_top_index": ends,
            **no_answer,
        }

    def _end_log_probs(self, sequence: tf.Tensor, allowed: tf.Tensor, starts: tf.Tensor) -> tf.Tensor:
        """Log-probabilities of all ends for each of the starts [B, K]: float32 [B, K, S]."""
        width = sequence.shape[-1]
        kernel, bias = (tf.cast(part, sequence.dtype) for part in self.end_transform.parameters())
        # A dense layer on [token; start], in two parts: the part of the tokens is the same for all starts.
        token_part = sequence @ kernel[:width]  # [B, S, H]
        start_part = tf.gather(sequence, starts, batch_dims=1) @ kernel[width:] + bias  # [B, K, H]
        x = tf.tanh(token_part[:, tf.newaxis] + start_part[:, :, tf.newaxis])  # [B, K, S, H]
        logits = self.end(tf.reshape(self.end_norm(x), [-1, width]))  # [B·K·S, 1]
        return _log_softmax(tf.reshape(logits, tf.shape(x)[:3]), allowed[:, tf.newaxis])  # [B, K, S]

    def _no_answer_logits(self, sequence: tf.Tensor, start_probabilities: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Logits [B] from the state of [CLS] and the mean of states, weighted by start probabilities."""
        weights = tf.cast(start_probabilities, sequence.dtype)[:, tf.newaxis]  # [B, 1, S]
        start = tf.squeeze(weights @ sequence, axis=1)  # [B, H]
        x = tf.tanh(self.answer_transform(tf.concat([start, sequence[:, 0]], axis=-1)))  # [B, H]
        x = dropout(x, self.dropout_rate, seed)
        logits = x @ tf.cast(self.answer_kernel, x.dtype)  # [B, 1]
        return tf.cast(tf.squeeze(logits, axis=-1), tf.float32)


def _log_softmax(logits: tf.Tensor, allowed: tf.Tensor) -> tf.Tensor:
    """Log-probabilities of the allowed logits, in float32. The others are about IMPOSSIBLE."""
    return tf.nn.log_softmax(tf.where(allowed, tf.cast(logits, tf.float32), IMPOSSIBLE))


@keras.saving.register_keras_serializable("albert_tf")
class AlbertSpanLabeler(TaskModel):
    """The encoder with two logits for each token: an answer starts here, an answer ends here.

    Inputs: the inputs of `AlbertEncoder`. With `answerability`, `input_type_ids` is needed, because it says
    where the context is (if all are 0: after the first separator), and `start_positions`, integer [B], may
    give the starts that the ends depend on.

    Outputs without `answerability`: `start_logits` and `end_logits` float32 [B, S], for padding, too.

    Outputs with `answerability`: `no_answer_logits` float32 [B]; above 0, no answer is the likelier. With
    `start_positions` also `start_logits` and `end_logits` float32 [B, S], which are log-probabilities.
    Without them the I likeliest starts, `start_top_log_probs` float32 [B, I] and `start_top_index` int32 [B,
    I], and the J likeliest ends of each, `end_top_log_probs` float32 [B, I, J] and `end_top_index` int32 [B,
    I, J]. An answer is in the context or, if there is none, at [CLS].

    Args:
      config: architecture of the network.
      answerability: True for questions that may have no answer, with the head of google-research/albert's
        run_squad_v2. False: the head of its run_squad_v1.
      start_n_top: number of starts that are followed up, I.
      end_n_top: number of ends that are returned for each start, J.
      **kwargs: `remat` and `fused` of `AlbertEncoder`, and arguments of `keras.Model`, such as `name` and
        `dtype`.
    Raises:
      InputError: a value is impossible.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> config = albert_tf.AlbertConfig(hidden_size=24, num_hidden_layers=2, vocab_size=9)
      >>> model = albert_tf.AlbertSpanLabeler(config)
      >>> model({"input_word_ids": tf.constant([[2, 7, 3, 8, 3]])})["start_logits"].shape
      TensorShape([1, 5])
    """

    arguments = ("answerability", "start_n_top", "end_n_top")
    inputs_in_order = (*ENCODER_INPUTS, START_POSITIONS)

    def __init__(
        self,
        config: AlbertConfig,
        answerability: bool = False,
        start_n_top: int = 5,
        end_n_top: int = 5,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        check_type("answerability", "bool", answerability)
        self.answerability = answerability
        self.has_head_dropout = answerability  # the simple head has none, as in google-research/albert
        self.start_n_top = check_whole("start_n_top", start_n_top, at_least=1)
        self.end_n_top = check_whole("end_n_top", end_n_top, at_least=1)
        if answerability:
            self.span = AnswerabilityHead(config, self.start_n_top, self.end_n_top, name="span")
        else:
            self.span = OutputLayer("cls/squad", 2, config)

    def head(self, inputs: ModelInputs, outputs: Outputs, seed: Seed) -> Outputs:
        """Logits of starts and ends [B, S]. With answerability: the outputs of `AnswerabilityHead.call`."""
        if not self.answerability:
            sequence = outputs["sequence_output"]
            logits = self.span(tf.reshape(sequence, [-1, self.config.hidden_size]))  # [B·S, 2]
            shape = [-1, sizes(sequence)[1]]
            start_logits, end_logits = (tf.reshape(column, shape) for column in tf.unstack(logits, axis=1))
            return {"start_logits": start_logits, "end_logits": end_logits}
        if TYPE_IDS not in inputs:
            raise InputError(f"{TYPE_IDS} is missing from the inputs: it says where the context is")
        allowed = context_tokens(*encoder_inputs(inputs, self.config.max_position_embeddings))
        allowed = tf.concat([tf.ones_like(allowed[:, :1]), allowed[:, 1:]], axis=1)  # [CLS] is first
        starts = inputs.get(START_POSITIONS)
        starts = None if starts is None else index_tensor(starts, rank=1)
        return self.span(outputs["sequence_output"], allowed, starts, seed=seed)


def context_tokens(word_ids: tf.Tensor, mask: tf.Tensor, type_ids: tf.Tensor) -> tf.Tensor:
    """True for tokens of the second segment, except for [SEP] at the end of the row: bool [B, S].

    Type ids tell the segments. RoBERTa has none, all are 0: there the second segment is what follows the
    separators after the first one. The last token of a row is a separator.
    """
    is_token = mask > 0
    positions = tf.range(tf.shape(mask)[1])  # [S]
    last = tf.reduce_max(tf.where(is_token, positions, -1), axis=1, keepdims=True)  # [B, 1]
    separators = tf.gather(word_ids, tf.maximum(last, 0), batch_dims=1)  # [B, 1]
    is_separator = word_ids == separators
    follows = (tf.cumsum(tf.cast(is_separator, tf.int32), axis=1) > 0) & ~is_separator
    has_types = tf.reduce_any(type_ids > 0, axis=1, keepdims=True)  # [B, 1]
    return is_token & tf.where(has_types, type_ids > 0, follows) & (positions < last)
