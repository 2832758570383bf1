"""From a span labeler's outputs for windows to the best answers to each question."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.questions import QuestionRows
from albert_tf.features import MASK
from albert_tf.finetuning.predictions.outputs import Predicted, Progress, Tensors, padded, row_outputs, unseen
from albert_tf.finetuning.predictions.records import AnswerPrediction, FoundAnswer
from albert_tf.model.spans import (
    Answers,
    Candidates,
    beam_candidates,
    best_answers,
    best_context,
    possible,
    span_candidates,
)
from albert_tf.training.losses import Objective

# In place of the logit of padding.
_NEVER = -1e30


def question_answerer(
    model: Any,
    batch_size: int,
    seq_length: int,
    max_answer_length: int,
    n_best: int,
    objective: Objective | None = None,
) -> Callable[[QuestionRows, Progress], Predicted]:
    """A function from questions to the best answers to each over all windows of its context.

    Args:
      model: a span labeler.
      batch_size: windows at a time; it decides about memory and speed, not about the answers.
      seq_length: that windows are made for.
      max_answer_length: of an answer, in tokens.
      n_best: answers of a question at most; without answerability also the starts and ends of a window that
        are looked at.
      objective: losses to sum up on the way.
    Note: padding is never among the likeliest starts and ends, as it can be in google-research/albert, so
      that the n best answers do not depend on how much of it there is.
    """

    def keep(outputs: Tensors, batch: Tensors) -> Tensors:
        if model.answerability:
            return outputs
        is_token = batch[MASK] > 0
        return {
            name: padded(tf.where(is_token, logits, _NEVER), seq_length, _NEVER)
            for name, logits in outputs.items()
        }

    outputs = row_outputs(model, seq_length, batch_size, keep, objective)
    answer = _answer_function(max_answer_length, n_best)

    def predict(questions: QuestionRows, progress: Progress = unseen) -> Predicted:
        found, terms = outputs(questions.rows, progress)
        odds = found.pop("no_answer_logits", None)
        candidates = span_candidates(**found, n_best=n_best) if odds is None else beam_candidates(**found)
        predictions = []
        for number, (first, behind) in enumerate(itertools.pairwise(_splits(questions))):
            best = answer(
                Candidates(*(values[first:behind] for values in candidates)),
                *_context(questions, first, behind, seq_length),
                questions.windows[first:behind],
                questions.contexts.texts[questions.of_question[number]],
            )
            null_odds = None if odds is None else float(odds[first:behind].min())
            predictions.append(AnswerPrediction(_found(best), null_odds))
        return Predicted(predictions, terms)

    return predict


def _splits(questions: QuestionRows) -> list[int]:
    """Where the windows of each question begin and those of the last end, [questions + 1]."""
    return np.searchsorted(questions.questions, np.arange(len(questions.records) + 1)).tolist()


def _context(
    questions: QuestionRows, first: int, behind: int, seq_length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each window where the context is, bool [W, S], and its tokens' bytes, int64 [W, S] each."""
    asked, told = (column[:, np.newaxis] for column in questions.rows.lengths[first:behind].T)  # [W, 1]
    columns = np.arange(seq_length) - asked - 2  # [W, S]
    offsets = [questions.offsets(window, seq_length) for window in range(first, behind)]
    starts, limits = (np.stack(places) for places in zip(*offsets, strict=True))
    return (columns >= 0) & (columns < told), starts, limits


def _answer_function(max_answer_length: int, n_best: int) -> Callable[..., Answers]:
    """The best answers to one question, as a graph that is traced once for any number of windows."""
    places, numbers = tf.TensorSpec([None, None], tf.int64), tf.TensorSpec([None, None], tf.int32)
    log_probs = tf.TensorSpec([None, None], tf.float32)
    signature = [
        Candidates(numbers, numbers, log_probs, log_probs),
        tf.TensorSpec([None, None], tf.bool),
        places,
        places,
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([], tf.string),
    ]

    @tf.function(input_signature=signature)
    def answers(
        candidates: Candidates,
        in_context: tf.Tensor,
        starts: tf.Tensor,
        limits: tf.Tensor,
        first_tokens: tf.Tensor,
        context: tf.Tensor,
    ) -> Answers:
        is_best = best_context(in_context, first_tokens, tf.zeros_like(first_tokens))
        counts = possible(candidates, in_context, is_best, max_answer_length)
        return best_answers(candidates, counts, starts, limits, context, n_best)

    return answers


def _found(best: Answers) -> tuple[FoundAnswer, ...]:
    columns = [column.numpy().tolist() for column in best]
    return tuple(FoundAnswer(text.decode(), *values) for text, *values in zip(*columns, strict=True))
