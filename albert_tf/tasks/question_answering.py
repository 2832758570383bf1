"""Question answering: reads windows of a context and finds the spans that answer a question."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import END_POSITIONS, INPUT_MASK, IS_IMPOSSIBLE, START_POSITIONS, Tensors
from albert_tf.errors import InputError, check_whole
from albert_tf.models.compiled_encoder import map_blocks
from albert_tf.recipes import QuestionSettings
from albert_tf.report import Report
from albert_tf.settings import unflatten_record
from albert_tf.tasks.answer_spans import (
    IMPOSSIBLE,
    BestAnswers,
    Candidates,
    best_answers,
    candidate_spans,
    has_most_context,
    possible_candidates,
)
from albert_tf.tasks.examples import (
    QuestionRecord,
    TokenizedTexts,
    character_offsets,
    concat_rows,
    examples_from_spans,
    row_lengths,
    tokenize_texts,
    utf8,
)
from albert_tf.tasks.losses import ANSWER, SPAN
from albert_tf.tasks.serving import ServingModel
from albert_tf.tasks.squad_metrics import answer_metrics
from albert_tf.tasks.task import Arrays, Examples, FinetuningTask, TaskEntries, to_length
from albert_tf.tasks.task_reports import answer_report
from albert_tf.text.packing import Windows, sliding_windows
from albert_tf.text.text_tokenizer import InputFormat, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer


class Contexts(NamedTuple):
    """U different contexts and their tokens."""

    text: tf.Tensor  # string [U]
    tokens: tf.RaggedTensor  # int32 [U, (tokens)]
    starts: tf.RaggedTensor  # offset of the first byte of each token, int64 [U, (tokens)]
    ends: tf.RaggedTensor  # offset after the last byte of each token


class QuestionWindows(NamedTuple):
    """Q questions with W windows of their contexts, `[CLS] question [SEP] window [SEP]`."""

    spans: TokenizedTexts  # of the windows
    windows: Windows  # its rows are questions
    columns: tf.Tensor  # position of the first context token in each window's input, int32 [W, 1]
    splits: tf.Tensor  # first window of each question, and the number of windows, int32 [Q + 1]
    contexts: Contexts
    context_of: tf.Tensor  # index of each question's context, int32 [Q]
    settings: QuestionSettings

    def answers(self, number: tf.Tensor, candidates: Candidates, seq_length: tf.Tensor | int) -> BestAnswers:
        """The best answers to one question.

        Args:
          number: index of the question, int32 [].
          candidates: candidates of all windows, [W, C].
          seq_length: length of a window's input, S.
        """
        of_question = slice(self.splits[number], self.splits[number + 1])
        candidates = Candidates(*(values[of_question] for values in candidates))
        first_tokens = self.windows.starts[of_question]
        places = tf.range(seq_length) - self.columns[of_question]  # [W, S], in the window
        in_context = (places >= 0) & (places < self.windows.lengths[of_question][:, tf.newaxis])
        is_best = has_most_context(in_context, first_tokens)
        is_possible = possible_candidates(candidates, in_context, is_best, self.settings.max_answer_length)
        context = self.context_of[number]
        bounds = (of[context] for of in (self.contexts.starts, self.contexts.ends))
        starts, ends = (tf.concat([values, [0]], axis=0) for values in bounds)  # [T + 1]
        tokens = tf.clip_by_value(first_tokens[:, tf.newaxis] + places, 0, tf.size(starts) - 1)  # [W, S]
        starts, ends = tf.gather(starts, tokens), tf.gather(ends, tokens)  # [W, S]
        text, n_best = self.contexts.text[context], self.settings.n_best
        return best_answers(candidates, is_possible, starts, ends, text, n_best)

    def labels(self, records: Sequence[QuestionRecord]) -> dict[str, np.ndarray]:
        """Labels of windows, [W] each: positions of the first and last token of the answer.

        The label is the first annotated answer. A window that does not hold all of it counts as impossible,
        with positions of 0.

        Note: byte offsets locate the answers; the alignment of characters in Google's code loses some.
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
    """Splits the contexts of questions into windows.

    Args:
      questions: tokens of questions, int32 [Q, (tokens)].
      contexts: the different contexts.
      context_of: index of each question's context, int32 [Q].
      seq_length: longest input of the model, in tokens.
      settings: lengths of questions and answers, and the stride of windows.
      input_format: special tokens around the segments.
    Source: google-research/albert, `convert_examples_to_features` in squad_utils.py.
    """
    question_lengths = tf.minimum(row_lengths(questions), settings.max_query_length)  # [Q]
    context_lengths = tf.gather(row_lengths(contexts.tokens), context_of)  # [Q]
    budgets = seq_length - input_format.num_special_tokens(2) - question_lengths  # [Q]
    windows = sliding_windows(context_lengths, budgets, settings.doc_stride)
    tokens, (question_starts, context_starts) = concat_rows([questions, contexts.tokens])
    starts = [
        tf.gather(question_starts, windows.rows),
        tf.gather(context_starts, tf.gather(context_of, windows.rows)) + tf.cast(windows.starts, tf.int64),
    ]
    lengths = [tf.gather(question_lengths, windows.rows), windows.lengths]
    (_, columns), _ = input_format.bounds(lengths)
    splits = tf.searchsorted(windows.rows, tf.range(tf.size(context_of) + 1))
    spans = TokenizedTexts(tokens, tf.stack(starts, axis=1), tf.stack(lengths, axis=1))
    return QuestionWindows(spans, windows, columns[:, tf.newaxis], splits, contexts, context_of, settings)


def _answer_span(record: QuestionRecord, starts: np.ndarray, ends: np.ndarray) -> tuple[int, int]:
    """First and last token of a question's first annotated answer; -1 if it has none."""
    if not record.answers:
        return -1, -1
    text, start = record.answers[0]
    before = record.context[:start] + text[: len(text) - len(text.lstrip())]
    first_byte = len(utf8(before))
    first = int(np.searchsorted(ends, first_byte, side="right"))
    last = int(np.searchsorted(starts, first_byte + len(utf8(text.strip())), side="left")) - 1
    if first > last:
        raise InputError(f"{record.where}: no token is left of the answer {text!r}")
    return first, last


CONTEXTS_AT_ONCE = 64
NO_ANSWER = "no_answer_logits"
_BEST_ANSWERS = ("answers", "scores", "starts", "ends")  # outputs for the K best answers, [B, K] each

QuestionRecords = Sequence[QuestionRecord]


class FoundAnswer(NamedTuple):
    """A span of a context that may answer a question."""

    text: str
    start: int  # offset of its first byte in the context
    end: int  # offset after its last byte
    start_log_prob: float
    end_log_prob: float
    probability: float  # among the n best answers


class AnswerPrediction(NamedTuple):
    """The best answers to a question."""

    answers: tuple[FoundAnswer, ...]  # at least one, the best first; an empty one if no span is possible
    null_odds: float | None  # above 0: "no answer" is likelier; None: every question has an answer

    def text(self, threshold: float = 0.0) -> str:
        """The answer; empty if the odds of "no answer" are above the threshold."""
        return "" if self.null_odds is not None and self.null_odds > threshold else self.answers[0].text


class QuestionAnswering(FinetuningTask):
    """Answers questions by spans of contexts; with `answerability` there may be no answer."""

    name = "question_answering"
    model_kind = "span_labeler"
    signature = "answer"
    inputs = ("question", "context")
    example: Mapping[str, Any] = {
        "question": ["How is the water?"],
        "context": ["The water is warm, and the sea is cold."],
    }
    has_windows = True
    supported_settings = frozenset(field.name for field in dataclasses.fields(QuestionSettings))
    metric_names = ("f1", "exact_match")

    def __init__(self, entries: TaskEntries):
        super().__init__(entries)
        self.answerability: bool = entries.get("answerability", False)
        self.settings = unflatten_record(QuestionSettings, entries)
        self.losses = ANSWER if self.answerability else SPAN
        # The head's end logits need the true start in training, and the likeliest starts in prediction.
        self.has_evaluation_loss = not self.answerability
        self.report_names = ("ece", "auc") if self.answerability else ("ece",)

    @classmethod
    def model_config(cls, records: QuestionRecords, answerability: bool = False) -> dict[str, Any]:
        """Entries of task.json; with `answerability` questions may have no answer."""
        return {"model": cls.model_kind, **({"answerability": True} if answerability else {})}

    def encode(self, records: QuestionRecords, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """A row for each window."""
        input_format = tokenizer.vocabulary.input_format
        check_whole("seq_length", self.seq_length, self._min_seq_length(input_format))
        numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
        tokens = tokenize_texts(tokenizer.tokenize_with_offsets, list(numbers), at_once=CONTEXTS_AT_ONCE)
        questions = tokenize_texts(
            lambda text: tokenizer.tokenize_shortened(text, self.settings.max_query_length),
            [record.question for record in records],
        )
        with tf.device("CPU:0"):
            contexts = Contexts(tf.constant([utf8(text) for text in numbers]), *tokens)
            context_of = tf.constant([numbers[record.context] for record in records])
            windows = question_windows(
                questions, contexts, context_of, self.seq_length, self.settings, input_format
            )
        features = windows.labels(records) if is_labelled else {}
        record_of = windows.windows.rows.numpy()
        rows = examples_from_spans(windows.spans, tokenizer.vocabulary, features, records=record_of)
        return Examples(records, rows, windows)

    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Candidates for answers [B, C], and the logit of no answer [B].

        Note: unlike in google-research/albert, padding is never among the likeliest starts and ends, so that
        the n best answers do not depend on the amount of padding.
        """
        mask = batch[INPUT_MASK]
        if not self.answerability:
            mask = to_length(mask, self.seq_length)
            outputs = {name: to_length(of, self.seq_length, IMPOSSIBLE) for name, of in outputs.items()}
        return self.decide(outputs, mask)

    def decide(self, outputs: Tensors, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Fields of `Candidates`, [W, C] each, and the logit of no answer [W] (0 without answerability)."""
        candidates = candidate_spans(outputs, mask, self.settings.n_best)
        no_answer = tf.cast(outputs.get(NO_ANSWER, tf.zeros_like(mask[:, 0])), tf.float32)
        return {**candidates._asdict(), NO_ANSWER: no_answer}

    def predictions(self, examples: Examples, outputs: Arrays) -> list[AnswerPrediction]:
        """The best answers to each question over all windows of its context."""
        questions: QuestionWindows = examples.layout
        splits, answers = questions.splits.numpy(), []
        with tf.device("CPU:0"):
            candidates = Candidates(*(tf.constant(outputs[name]) for name in Candidates._fields))

            @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.int32)])
            def find_best(number: tf.Tensor) -> BestAnswers:
                return questions.answers(number, candidates, self.seq_length)

            for number in range(len(splits) - 1):
                columns = (column.numpy().tolist() for column in find_best(tf.constant(number)))
                rows = zip(*columns, strict=True)
                answers.append(tuple(FoundAnswer(text.decode(), *values) for text, *values in rows))
        if not self.answerability:
            return [AnswerPrediction(best, None) for best in answers]
        odds = np.minimum.reduceat(outputs[NO_ANSWER], splits[:-1]).tolist()
        return [AnswerPrediction(*pair) for pair in zip(answers, odds, strict=True)]

    def _min_seq_length(self, input_format: InputFormat) -> int:
        """The length of an input with the longest question and one token of a context."""
        return self.settings.max_query_length + input_format.num_special_tokens(2) + 1

    def metrics(self, records: QuestionRecords, predictions: Sequence[AnswerPrediction]) -> dict[str, float]:
        """The metrics of SQuAD's scripts, in per cent; with null odds also those at the best thresholds.

        Note: the best thresholds are searched with all answers. SQuAD's script finds none above 0 in what
        `predict` writes, where these questions have no answer.
        """
        # By their number, since two files may use the same ids.
        numbered = [(str(number), best) for number, best in enumerate(predictions)]
        questions = [(str(n), [answer.text for answer in x.answers]) for n, x in enumerate(records)]
        answers = {number: best.text() for number, best in numbered}
        odds = {number: best.null_odds for number, best in numbered if best.null_odds is not None}
        metrics = answer_metrics(questions, bool(odds), answers, odds or None)
        if not odds:
            return metrics
        all_answers = {number: best.text(math.inf) for number, best in numbered}
        at_best = answer_metrics(questions, True, all_answers, odds)
        return metrics | {name: value for name, value in at_best.items() if name.startswith("best_")}

    def report(self, records: QuestionRecords, predictions: Sequence[AnswerPrediction]) -> Report:
        """`answer_report` of the questions."""
        answers = [prediction.text() for prediction in predictions]
        probabilities = [prediction.answers[0].probability for prediction in predictions]
        odds = [prediction.null_odds or 0.0 for prediction in predictions] if self.answerability else None
        return answer_report(records, answers, probabilities, odds)

    def check_model(self, served: ServingModel) -> None:
        """Raises an InputError if the model's input is too short for a question and a context token."""
        least = max(self._min_seq_length(served.input_format), self._min_columns(served.model))
        check_whole("seq_length", served.seq_length, least)

    def _min_columns(self, model: Any) -> int:
        """The least number of columns of a batch, since the model's head takes the top starts and ends."""
        return max(model.start_n_top, model.end_n_top) if self.answerability else 1

    def answer(self, served: ServingModel, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """The best spans of contexts for questions, string [B] each of any length.

        Returns `answer` string [B]; `score` float32 [B], its probability among the n best answers; `start`
        and `end` int32 [B], the offsets in the context of its first byte and after its last byte; and with
        answerability `no_answer_score` float32 [B], above 0 for "no answer". The answer is empty if no span
        is possible. `answers`, `scores`, `starts` and `ends` [B, K] describe the K best answers; rows with
        fewer answers end in empty ones.
        """
        # Stacking raises an error if the batch sizes differ; the code below would not.
        question, context = tf.unstack(tf.stack([ensure_text_batch(text) for text in (question, context)]))
        contexts = Contexts(context, *served.tokenizer.tokenize_with_offsets(context))
        rows, (questions,) = tf.range(tf.size(question)), served.tokenize(question)
        reading = served.seq_length, self.settings, served.input_format
        windows = question_windows(questions, contexts, rows, *reading)
        inputs = served.pack_spans(windows.spans, self._min_columns(served.model))
        dtypes = {**Candidates(tf.int32, tf.int32, tf.float32, tf.float32)._asdict(), NO_ANSWER: tf.float32}
        outputs = map_blocks(lambda x: self.decide(served.head_outputs(x), x[INPUT_MASK]), inputs, dtypes)
        no_answer, length = outputs.pop(NO_ANSWER), tf.shape(inputs[INPUT_MASK])[1]
        count = min(served.top_k, self.settings.n_best)

        def find_best(number: tf.Tensor) -> dict[str, tf.Tensor]:
            answers = windows.answers(number, Candidates(**outputs), length)
            padding = [[0, tf.maximum(count - tf.size(answers.text), 0)]]
            columns = (answers.text, tf.cast(answers.probability, tf.float32), answers.start, answers.end)
            return {name: tf.pad(x, padding)[:count] for name, x in zip(_BEST_ANSWERS, columns, strict=True)}

        types = zip(_BEST_ANSWERS, (tf.string, tf.float32, tf.int32, tf.int32), strict=True)
        specs = {name: tf.TensorSpec([count], dtype) for name, dtype in types}
        best = tf.map_fn(find_best, rows, fn_output_signature=specs)
        answers = {**best, **{name.removesuffix("s"): x[:, 0] for name, x in best.items()}}
        if self.answerability:
            question_of = windows.windows.rows
            scores = tf.math.unsorted_segment_min(no_answer, question_of, tf.size(question))
            answers["no_answer_score"] = scores
        return answers

    def parse_input(self, value: Any, where: str) -> QuestionRecord:
        """Checks a dict of `question` and `context`."""
        question, context = self.fields(value, ("question", "context"), where)
        return QuestionRecord(where, where, question, context, (), False)

    def format_output(self, record: QuestionRecord, outputs: Arrays, top_k: int | None) -> Any:
        """The best span of the context, or an empty one with the probability that there is no answer.

        With `top_k` it is a list: this answer and the next best spans.
        """
        answers, odds = [], outputs.get("no_answer_score")
        if odds is not None and odds > 0:
            answers.append({"answer": "", "score": float(1 / (1 + np.exp(-odds))), "start": 0, "end": 0})
        columns = (outputs[name].tolist() for name in ("scores", "starts", "ends"))
        for score, *byte_offsets in zip(*columns, strict=True):
            start, end = character_offsets(record.context, byte_offsets).tolist()
            if start < end or not answers:  # empty spans only fill up the row
                answer = {"answer": record.context[start:end], "score": score, "start": start, "end": end}
                answers.append(answer)
        return answers[0] if top_k is None else answers[:top_k]
