"""Questions on contexts as windows of tokens: where answers are in them, and which text a span stands for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from albert_tf.data.tasks.encoding import joined
from albert_tf.data.tasks.records import QuestionRecord
from albert_tf.data.tasks.rows import (
    Tokenised,
    TokenRows,
    check_length,
    splits_of,
    tokenised,
    tokenised_blocks,
    utf8,
)
from albert_tf.errors import InputError
from albert_tf.features import END_POSITIONS, IS_IMPOSSIBLE, START_POSITIONS
from albert_tf.text.tokenizer import PieceTokenizer
from albert_tf.text.windows import DOC_STRIDE, LONGEST_QUERY, Windows, sliding_windows

CONTEXTS_AT_ONCE = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Contexts:
    """Different contexts as tokens, and where each token stands in its text.

    Args:
      texts: the contexts, UTF-8.
      tokens: of all of them.
      starts: first byte of each token, with the space before it; int64 [T].
      limits: the byte behind its last, int64 [T].
    """

    texts: Sequence[bytes]
    tokens: Tokenised
    starts: np.ndarray
    limits: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class QuestionRows:
    """`[CLS] question [SEP] window of the context [SEP]` for each window of each question.

    Args:
      rows: the examples, one a window.
      records: the questions.
      questions: the question of each example, int32 [N].
      windows: tokens of the context before those of each example, int32 [N].
      contexts: of all questions.
      of_question: the number of each question's context, int64 [questions].
    """

    rows: TokenRows
    records: Sequence[QuestionRecord]
    questions: np.ndarray
    windows: np.ndarray
    contexts: Contexts
    of_question: np.ndarray

    def offsets(self, example: int, seq_length: int) -> tuple[np.ndarray, np.ndarray]:
        """Where the tokens of a packed example stand in its context.

        Args:
          example: its number.
          seq_length: positions, S, at least as many as it has tokens.
        Returns:
          First byte of each, and the byte behind its last, int64 [S] each; 0 for tokens of no context.
        """
        asked, told = self.rows.lengths[example]
        first = self.contexts.tokens.splits[self.of_question[self.questions[example]]] + self.windows[example]
        of_context = slice(first, first + told)
        in_row = slice(asked + 2, asked + 2 + told)
        found = np.zeros([2, seq_length], np.int64)
        found[0, in_row], found[1, in_row] = (
            self.contexts.starts[of_context],
            self.contexts.limits[of_context],
        )
        return found[0], found[1]

    def text(self, example: int, start: int, end: int) -> str:
        """What stands in the context at a span of a packed example, without spaces around it.

        Args:
          example: its number.
          start: position of the first token.
          end: position of the last token.
        """
        starts, limits = self.offsets(example, int(self.rows.lengths[example].sum()) + 3)
        context = self.contexts.texts[self.of_question[self.questions[example]]]
        return context[starts[start] : limits[end]].decode().strip()


def question_rows(
    records: Sequence[QuestionRecord],
    tokenizer: PieceTokenizer,
    seq_length: int,
    doc_stride: int = DOC_STRIDE,
    max_query_length: int = LONGEST_QUERY,
    is_labelled: bool = True,
) -> QuestionRows:
    """Questions as windows on their contexts.

    A window without the whole of the first annotated answer is to say that there is none: positions 0.

    Args:
      records: the questions.
      tokenizer: text to token ids and their offsets.
      seq_length: longest sequence, S.
      doc_stride: tokens from one window to the next.
      max_query_length: tokens of a question, of which the first ones stay.
      is_labelled: False leaves out the features `start_positions`, `end_positions`, `is_impossible`,
        int32 [N].
    Raises:
      InputError: a setting is impossible, or normalisation leaves nothing of an answer.
    Source: google-research/albert, `convert_examples_to_features` in squad_utils.py.
    Note: answers are found by byte offsets and not by an alignment of characters, which loses some.
    """
    check_length("doc_stride", doc_stride, 1)
    check_length("max_query_length", max_query_length, 1)
    check_length("seq_length", seq_length, max_query_length + 4)
    numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
    of_question = np.array([numbers[record.context] for record in records])
    contexts = tokenised_contexts(list(numbers), tokenizer)
    questions = tokenised(tokenizer, [record.question for record in records])
    asked = np.minimum(questions.lengths, max_query_length)  # [questions]
    windows = sliding_windows(contexts.tokens.lengths[of_question], seq_length - 3 - asked, doc_stride)
    windows = Windows(*(tensor.numpy() for tensor in windows))
    tokens, (question_starts, context_starts) = joined([questions, contexts.tokens])
    starts = [question_starts[windows.rows], context_starts[of_question[windows.rows]] + windows.starts]
    lengths = [asked[windows.rows], windows.lengths]
    features = {}
    if is_labelled:
        spans = [answer_span(r, contexts, number) for r, number in zip(records, of_question, strict=True)]
        features = _labels(windows, asked, np.array(spans))
    rows = TokenRows(tokens, np.stack(starts, axis=-1), np.stack(lengths, axis=-1), features)
    return QuestionRows(rows, records, windows.rows, windows.starts, contexts, of_question)


def tokenised_contexts(texts: Sequence[str], tokenizer: PieceTokenizer) -> Contexts:
    """Contexts as tokens with their places, many at a time."""
    blocks = [
        (tokens.row_lengths().numpy(), *(ragged.flat_values.numpy() for ragged in (tokens, starts, limits)))
        for tokens, starts, limits in tokenised_blocks(
            tokenizer.tokenize_with_offsets, texts, at_once=CONTEXTS_AT_ONCE
        )
    ]
    lengths, tokens, starts, limits = (np.concatenate(part) for part in zip(*blocks, strict=True))
    return Contexts([utf8(text) for text in texts], Tokenised(tokens, splits_of(lengths)), starts, limits)


def answer_span(record: QuestionRecord, contexts: Contexts, number: int) -> tuple[int, int]:
    """First and last token of a question's first answer in its context; -1 where it has none.

    Raises:
      InputError: normalisation leaves nothing of it.
    """
    if not record.answers:
        return -1, -1
    text, start = record.answers[0]
    before = record.context[:start] + text[: len(text) - len(text.lstrip())]
    begin = len(utf8(before))
    limit = begin + len(utf8(text.strip()))
    tokens = slice(*contexts.tokens.splits[number : number + 2])
    first = int(np.searchsorted(contexts.limits[tokens], begin, side="right"))
    last = int(np.searchsorted(contexts.starts[tokens], limit, side="left")) - 1
    if first > last:
        raise InputError(f"{record.where}: no token is left of the answer {text!r}")
    return first, last


def _labels(windows: Windows, asked: np.ndarray, spans: np.ndarray) -> dict[str, np.ndarray]:
    """Where answers are in packed windows, of their first and last tokens in contexts [questions, 2]."""
    spans = spans[windows.rows]  # [N, 2]
    in_window = spans - windows.starts[:, np.newaxis]
    is_inside = (spans[:, 0] >= 0) & (in_window[:, 0] >= 0) & (in_window[:, 1] < windows.lengths)
    in_row = in_window + asked[windows.rows, np.newaxis] + 2
    starts, ends = np.where(is_inside[:, np.newaxis], in_row, 0).astype(np.int32).T
    return {START_POSITIONS: starts, END_POSITIONS: ends, IS_IMPOSSIBLE: (~is_inside).astype(np.int32)}
