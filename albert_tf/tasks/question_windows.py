"""Questions on contexts of any length: windows of them as inputs of a model, its outputs as answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.features import END_POSITIONS, IS_IMPOSSIBLE, START_POSITIONS
from albert_tf.models.spans import Answers, Candidates, best_answers, best_context, possible
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks.examples.records import QuestionRecord
from albert_tf.tasks.examples.rows import Spans, joined, row_lengths, utf8
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.tokenizers.windows import Windows, sliding_windows
from albert_tf.utils.errors import InputError


class Contexts(NamedTuple):
    """Different contexts and their tokens."""

    text: tf.Tensor  # string [U]
    tokens: tf.RaggedTensor  # int32 [U, (tokens)]
    starts: tf.RaggedTensor  # first byte of each token, int64 [U, (tokens)]
    ends: tf.RaggedTensor  # byte after its last


class QuestionWindows(NamedTuple):
    """Questions with windows of their contexts, `[CLS] question [SEP] window [SEP]`."""

    spans: Spans  # of W windows
    windows: Windows  # whose rows are questions
    columns: tf.Tensor  # of the first token of each window in its input, int32 [W, 1]
    splits: tf.Tensor  # first window of each question, and the number of windows, int32 [Q + 1]
    contexts: Contexts
    context_of: tf.Tensor  # number of each question's context, int32 [Q]
    settings: QuestionSettings

    def answers(self, number: tf.Tensor, candidates: Candidates, seq_length: tf.Tensor | int) -> Answers:
        """The best answers to the question of a number, int32 [], of the candidates of all windows, [W, C].

        seq_length is that of a window, S.
        """
        of_question = slice(self.splits[number], self.splits[number + 1])
        candidates = Candidates(*(values[of_question] for values in candidates))
        first_tokens = self.windows.starts[of_question]
        places = tf.range(seq_length) - self.columns[of_question]  # [W, S], in the window
        in_context = (places >= 0) & (places < self.windows.lengths[of_question][:, tf.newaxis])
        is_best = best_context(in_context, first_tokens, tf.zeros_like(first_tokens))
        counts = possible(candidates, in_context, is_best, self.settings.max_answer_length)
        context = self.context_of[number]
        bounds = (of[context] for of in (self.contexts.starts, self.contexts.ends))
        starts, ends = (tf.concat([values, [0]], axis=0) for values in bounds)  # [T + 1]
        tokens = tf.clip_by_value(first_tokens[:, tf.newaxis] + places, 0, tf.size(starts) - 1)  # [W, S]
        starts, ends = tf.gather(starts, tokens), tf.gather(ends, tokens)  # [W, S]
        text, n_best = self.contexts.text[context], self.settings.n_best
        return best_answers(candidates, counts, starts, ends, text, n_best)

    def labels(self, records: Sequence[QuestionRecord]) -> dict[str, np.ndarray]:
        """Labels of windows, [W] each: positions of the first and last token of answers.

        A window without the whole of the first annotated answer has none, and positions of 0.

        Note: answers are found by byte offsets and not by an alignment of characters, which loses some.
        """
        starts, ends = (
            np.split(of.values.numpy(), of.row_splits.numpy()[1:-1])
            for of in (self.contexts.starts, self.contexts.ends)
        )
        pairs = zip(records, self.context_of.numpy(), strict=True)
        spans = np.array([_answer_span(record, starts[n], ends[n]) for record, n in pairs])  # [Q, 2]
        rows, _, firsts, lengths = (values.numpy() for values in self.windows)
        spans = spans[rows] - firsts[:, np.newaxis]  # [W, 2], tokens of windows
        is_inside = (spans[:, 0] >= 0) & (spans[:, 1] < lengths)
        positions = np.where(is_inside[:, np.newaxis], spans + self.columns.numpy(), 0).astype(np.int32)
        return {
            START_POSITIONS: positions[:, 0],
            END_POSITIONS: positions[:, 1],
            IS_IMPOSSIBLE: (~is_inside).astype(np.int32),
        }


def question_windows(
    questions: tf.RaggedTensor,
    contexts: Contexts,
    context_of: tf.Tensor,
    seq_length: int,
    settings: QuestionSettings,
    input_format: InputFormat,
) -> QuestionWindows:
    """The inputs of a model for questions, int32 [Q, (tokens)]; seq_length is that of the longest.

    Source: google-research/albert, `convert_examples_to_features` in squad_utils.py.
    """
    question_lengths = tf.minimum(row_lengths(questions), settings.max_query_length)  # [Q]
    context_lengths = tf.gather(row_lengths(contexts.tokens), context_of)  # [Q]
    budgets = seq_length - input_format.num_special_tokens(2) - question_lengths  # [Q]
    windows = sliding_windows(context_lengths, budgets, settings.doc_stride)
    tokens, (question_starts, context_starts) = joined([questions, contexts.tokens])
    starts = [
        tf.gather(question_starts, windows.rows),
        tf.gather(context_starts, tf.gather(context_of, windows.rows)) + tf.cast(windows.starts, tf.int64),
    ]
    lengths = [tf.gather(question_lengths, windows.rows), windows.lengths]
    (_, columns), _ = input_format.bounds(lengths)
    splits = tf.searchsorted(windows.rows, tf.range(tf.size(context_of) + 1))
    spans = Spans(tokens, tf.stack(starts, axis=1), tf.stack(lengths, axis=1))
    return QuestionWindows(spans, windows, columns[:, tf.newaxis], splits, contexts, context_of, settings)


def _answer_span(record: QuestionRecord, starts: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """First and last token of a question's first answer in its context; -1 where it has none."""
    if not record.answers:
        return -1, -1
    text, start = record.answers[0]
    before = record.context[:start] + text[: len(text) - len(text.lstrip())]
    begin = len(utf8(before))
    first = int(np.searchsorted(ends, begin, side="right"))
    last = int(np.searchsorted(starts, begin + len(utf8(text.strip())), side="left")) - 1
    if first > last:
        raise InputError(f"{record.where}: no token is left of the answer {text!r}")
    return first, last
