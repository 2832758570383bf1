"""AlbertSpanLabeler: where in its context the answer to a question is."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.features import START_POSITIONS, TYPE_IDS
from albert_tf.model.answerability import AnswerableSpan
from albert_tf.model.encoder import encoder_inputs
from albert_tf.model.heads import OutputLayer
from albert_tf.model.spans import context_tokens
from albert_tf.model.tasks import Inputs, TaskModel, head_seeds, positive


@keras.saving.register_keras_serializable("albert_tf")
class AlbertSpanLabeler(TaskModel):
    """The encoder with logits of every token: an answer starts here, an answer ends here.

    Args:
      config: the network's shape.
      answerability: whether questions may have no answer. The head is then that of google-research/albert's
        run_squad_v2 (`AnswerableSpan`), else the two logits a token of its run_squad_v1.
      start_n_top: with answerability, the starts to follow up, I.
      end_n_top: with answerability, the ends to keep of each start, J.
      **kwargs: of TaskModel and keras.Model: `remat`, `name`, `dtype` and others.
    """

    arguments = ("answerability", "start_n_top", "end_n_top")

    def __init__(
        self,
        config: AlbertConfig,
        answerability: bool = False,
        start_n_top: int = 5,
        end_n_top: int = 5,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        if not isinstance(answerability, bool):
            raise InputError(f"answerability={answerability!r} must be True or False")
        self.answerability = answerability
        self.start_n_top = positive("start_n_top", start_n_top)
        self.end_n_top = positive("end_n_top", end_n_top)
        if answerability:
            self.span = AnswerableSpan(config, start_n_top, end_n_top, name="span")
        else:
            self.span = OutputLayer("cls/squad", 2, config)

    def call(
        self, inputs: Inputs, training: bool | None = None, seed: tf.Tensor | None = None
    ) -> dict[str, tf.Tensor]:
        """The logits of every token; hidden states come from `self.encoder`.

        Args:
          inputs: the encoder's inputs; with answerability, types are needed, since they say where the
            context is, and `start_positions`, integer [B], are the starts that ends depend on.
          training: whether dropout is on. The simple head has none, as in google-research/albert; that of
            the answer class is `classifier_dropout_prob`.
          seed: int32 [2] of the dropout; None draws one a call.
        Returns:
          float32 `start_logits` and `end_logits` [B, S], padding included; with answerability what
          `AnswerableSpan.call` returns: answers may be in the context and, where there is none, at [CLS].
        Raises:
          ValueError: types are missing where they are needed, or as `AnswerableSpan.call`.
          ValueError, tf.errors.InvalidArgumentError: as the encoder.
        """
        if not self.answerability:
            return self._two_logits(self.encoder(inputs, training=training, seed=seed)["sequence_output"])
        _, mask, type_ids = encoder_inputs(inputs, self.config.max_position_embeddings)
        if TYPE_IDS not in inputs:
            raise InputError(f"{TYPE_IDS} is missing from the inputs: it says where the context is")
        encoder_seed, head_seed = head_seeds(training, seed)
        sequence = self.encoder(inputs, training=training, seed=encoder_seed)["sequence_output"]
        allowed = context_tokens(mask, type_ids)
        allowed = tf.concat([tf.ones_like(allowed[:, :1]), allowed[:, 1:]], axis=1)  # [CLS] is first
        starts = inputs.get(START_POSITIONS)
        return self.span(
            sequence, allowed, None if starts is None else tf.convert_to_tensor(starts), seed=head_seed
        )

    def _two_logits(self, sequence: tf.Tensor) -> dict[str, tf.Tensor]:
        logits = self.span(tf.reshape(sequence, [-1, self.config.hidden_size]))  # [B·S, 2]
        length = sequence.shape[1] or tf.shape(sequence)[1]
        return {
            name: tf.reshape(logits[:, index], [-1, length])  # [B, S]
            for index, name in enumerate(("start_logits", "end_logits"))
        }
