"""Question answering: windows of a context, the best spans, answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import END_POSITIONS, INPUT_MASK, IS_IMPOSSIBLE, START_POSITIONS, Tensors
from albert_tf.errors import InputError
from albert_tf.models.answer_spans import (
    IMPOSSIBLE,
    BestAnswers,
    Candidates,
    best_answers,
    best_context,
    labeler_candidates,
    possible_positions,
)
from albert_tf.models.compiled_encoder import in_blocks
from albert_tf.recipes import QuestionSettings
from albert_tf.report import Report
from albert_tf.settings import unflatten_record
from albert_tf.tasks.examples import (
    QuestionRecord,
    TokenizedTexts,
    characters,
    check_length,
    concat_rows,
    row_lengths,
    tokenize_examples,
    tokenize_texts,
    utf8,
)
from albert_tf.tasks.losses import ANSWER, SPAN
from albert_tf.tasks.serving import Served
from albert_tf.tasks.squad_metrics import answer_metrics
from albert_tf.tasks.task import Arrays, Examples, FinetuningTask, TaskConfig, to_length
from albert_tf.tasks.task_reports import answer_report
from albert_tf.text.packing import Windows, sliding_windows
from albert_tf.text.text_tokenizer import InputFormat, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer


class Contexts(NamedTuple):
    """Different contexts and their tokens."""

    text: tf.Tensor  # string [U]
    tokens: tf.RaggedTensor  # int32 [U, (tokens)]
    starts: tf.RaggedTensor  # first byte of each token, int64 [U, (tokens)]
    ends: tf.RaggedTensor  # byte after its last


class QuestionWindows(NamedTuple):
    """Questions with windows of their contexts, `[CLS] question [SEP] window [SEP]`."""

    spans: TokenizedTexts  # of W windows
    windows: Windows  # whose rows are questions
    columns: tf.Tensor  # of the first token of each window in its input, int32 [W, 1]
    splits: tf.Tensor  # first window of each question, and the number of windows, int32 [Q + 1]
    contexts: Contexts
    context_of: tf.Tensor  # number of each question's context, int32 [Q]
    settings: QuestionSettings

    def answers(self, number: tf.Tensor, candidates: Candidates, seq_length: tf.Tensor | int) -> BestAnswers:
        """The best answers to the question of a number, int32 [], of the candidates of all windows, [W, C].

        seq_length is that of a window, S.
        """
        of_question = slice(self.splits[number], self.splits[number + 1])
        candidates = Candidates(*(values[of_question] for values in candidates))
        first_tokens = self.windows.starts[of_question]
        places = tf.range(seq_length) - self.columns[of_question]  # [W, S], in the window
        in_context = (places >= 0) & (places < self.windows.lengths[of_question][:, tf.newaxis])
        is_best = best_context(in_context, first_tokens, tf.zeros_like(first_tokens))
        counts = possible_positions(candidates, in_context, is_best, self.settings.max_answer_length)
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


CONTEXTS_AT_ONCE = 64
NO_ANSWER = "no_answer_logits"
_SEVERAL = ("answers", "scores", "starts", "ends")  # of the K best answers, [B, K] each

QuestionRecords = Sequence[QuestionRecord]


class FoundAnswer(NamedTuple):
    """A span of a context that may answer a question."""

    text: str
    start: int  # its first byte in the context
    end: int  # the byte after it
    start_log_prob: float
    end_log_prob: float
    probability: float  # among those that were found


class AnswerPrediction(NamedTuple):
    """The best answers to a question."""

    answers: tuple[FoundAnswer, ...]  # at least one, the best first; an empty one where no span counts
    null_odds: float | None  # above 0 the likelier is that there is none; None where there must be one

    def text(self, threshold: float = 0.0) -> str:
        """The answer; empty where there is likely none, with odds above the threshold."""
        return "" if self.null_odds is not None and self.null_odds > threshold else self.answers[0].text


class QuestionAnswering(FinetuningTask):
    """Spans of contexts; with answerability there may be no answer."""

    name = "question_answering"
    model = "span_labeler"
    signature = "answer"
    inputs = ("question", "context")
    example: Mapping[str, Any] = {
        "question": ["How is the water?"],
        "context": ["The water is warm, and the sea is cold."],
    }
    has_windows = True
    metric_names = ("f1", "exact_match")

    def __init__(self, config: TaskConfig):
        super().__init__(config)
        self.answerability: bool = config.get("answerability", False)
        self.settings = unflatten_record(QuestionSettings, config)
        self.losses = ANSWER if self.answerability else SPAN
        # Training knows the true start of an answer, prediction the likeliest.
        self.has_evaluation_loss = not self.answerability
        self.report_names = ("ece", "auc") if self.answerability else ("ece",)

    @classmethod
    def model_config(cls, records: QuestionRecords, answerability: bool = False) -> dict[str, Any]:
        """With `answerability`, questions may have no answer."""
        return {"model": cls.model, **({"answerability": True} if answerability else {})}

    def encode(self, records: QuestionRecords, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """A row for each window."""
        input_format = tokenizer.vocabulary.input_format
        check_length("seq_length", self.seq_length, self._shortest(input_format))
        numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
        found = tokenize_texts(tokenizer.tokenize_with_offsets, list(numbers), at_once=CONTEXTS_AT_ONCE)
        questions = tokenize_texts(
            lambda text: tokenizer.tokenize_shortened(text, self.settings.max_query_length),
            [record.question for record in records],
        )
        with tf.device("CPU:0"):
            contexts = Contexts(tf.constant([utf8(text) for text in numbers]), *found)
            context_of = tf.constant([numbers[record.context] for record in records])
            windows = question_windows(
                questions, contexts, context_of, self.seq_length, self.settings, input_format
            )
        features = windows.labels(records) if is_labelled else {}
        numbers = windows.windows.rows.numpy()
        rows = tokenize_examples(windows.spans, tokenizer.vocabulary, features, records=numbers)
        return Examples(records, rows, windows)

    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Candidates for answers [B, C], and the logit of no answer [B].

        Note: padding is never among the likeliest starts and ends, as it can be in google-research/albert, so
        that the n best answers do not depend on how much of it there is.
        """
        mask = batch[INPUT_MASK]
        if not self.answerability:
            mask = to_length(mask, self.seq_length)
            outputs = {name: to_length(of, self.seq_length, IMPOSSIBLE) for name, of in outputs.items()}
        return self.decide(outputs, mask)

    def decide(self, outputs: Tensors, mask: tf.Tensor) -> dict[str, tf.Tensor]:
        """Candidates [W, C] by their fields, and the logit of no answer [W], 0 without answerability."""
        found = labeler_candidates(outputs, mask, self.settings.n_best)
        no_answer = tf.cast(outputs.get(NO_ANSWER, tf.zeros_like(mask[:, 0])), tf.float32)
        return {**found._asdict(), NO_ANSWER: no_answer}

    def predictions(self, examples: Examples, outputs: Arrays) -> list[AnswerPrediction]:
        """The best answers to each question over all windows of its context."""
        questions: QuestionWindows = examples.places
        splits, answers = questions.splits.numpy(), []
        with tf.device("CPU:0"):
            candidates = Candidates(*(tf.constant(outputs[name]) for name in Candidates._fields))

            @tf.function(autograph=False, input_signature=[tf.TensorSpec([], tf.int32)])
            def best(number: tf.Tensor) -> BestAnswers:
                return questions.answers(number, candidates, self.seq_length)

            for number in range(len(splits) - 1):
                columns = zip(*(column.numpy().tolist() for column in best(tf.constant(number))), strict=True)
                answers.append(tuple(FoundAnswer(text.decode(), *row) for text, *row in columns))
        if not self.answerability:
            return [AnswerPrediction(found, None) for found in answers]
        odds = np.minimum.reduceat(outputs[NO_ANSWER], splits[:-1]).tolist()
        return [AnswerPrediction(*pair) for pair in zip(answers, odds, strict=True)]

    def _shortest(self, input_format: InputFormat) -> int:
        """Tokens of an input with the longest question and one token of a context."""
        return self.settings.max_query_length + input_format.num_special_tokens(2) + 1

    def metrics(self, records: QuestionRecords, predictions: Sequence[AnswerPrediction]) -> dict[str, float]:
        """Those of SQuAD's scripts, in per cent; with null odds also the best of all thresholds."""
        pairs = list(zip(records, predictions, strict=True))
        questions = [(record.id, [answer.text for answer in record.answers]) for record in records]
        answers = {record.id: found.text() for record, found in pairs}
        odds = {record.id: found.null_odds for record, found in pairs if found.null_odds is not None}
        return answer_metrics(questions, bool(odds), answers, odds or None)

    def report(self, records: QuestionRecords, predictions: Sequence[AnswerPrediction]) -> Report:
        """`answer_report` of the questions."""
        answers = [found.text() for found in predictions]
        probabilities = [found.answers[0].probability for found in predictions]
        odds = [found.null_odds or 0.0 for found in predictions] if self.answerability else None
        return answer_report(records, answers, probabilities, odds)

    def check_served(self, served: Served) -> None:
        """Refuses a longest input that is too short for a question and a token of its context."""
        least = max(self._shortest(served.input_format), self._least_columns(served.model))
        check_length("seq_length", served.seq_length, least)

    def _least_columns(self, model: Any) -> int:
        """Columns that an input of the model needs, whatever they hold."""
        return max(model.start_n_top, model.end_n_top) if self.answerability else 1

    def answer(self, served: Served, question: tf.Tensor, context: tf.Tensor) -> Tensors:
        """The best spans of contexts for questions, string [B] each of any length.

        It answers `answer` string [B], its probability among the n best, `score` float32 [B], `start` and
        `end` int32 [B], its first byte in the context and the one after its last; and with answerability
        `no_answer_score` float32 [B], above 0 where the model says that there is no answer. Where no span
        counts, the answer is empty. The best K answers are `answers`, `scores`, `starts` and `ends` [B, K],
        which end in empty ones where there are fewer.
        """
        # Stacked, since that raises where the batch sizes differ: what follows would go on.
        question, context = tf.unstack(tf.stack([ensure_text_batch(text) for text in (question, context)]))
        contexts = Contexts(context, *served.tokenizer.tokenize_with_offsets(context))
        rows, (questions,) = tf.range(tf.size(question)), served.tokens(question)
        reading = served.seq_length, self.settings, served.input_format
        windows = question_windows(questions, contexts, rows, *reading)
        inputs = served.packed(windows.spans, self._least_columns(served.model))
        dtypes = {**Candidates(tf.int32, tf.int32, tf.float32, tf.float32)._asdict(), NO_ANSWER: tf.float32}
        decided = in_blocks(lambda x: self.decide(served.outputs(x), x[INPUT_MASK]), inputs, dtypes)
        no_answer, length = decided.pop(NO_ANSWER), tf.shape(inputs[INPUT_MASK])[1]
        count = min(served.top_k, self.settings.n_best)

        def best(number: tf.Tensor) -> dict[str, tf.Tensor]:
            answers = windows.answers(number, Candidates(**decided), length)
            missing = [[0, tf.maximum(count - tf.size(answers.text), 0)]]
            columns = (answers.text, tf.cast(answers.probability, tf.float32), answers.start, answers.end)
            return {name: tf.pad(x, missing)[:count] for name, x in zip(_SEVERAL, columns, strict=True)}

        types = zip(_SEVERAL, (tf.string, tf.float32, tf.int32, tf.int32), strict=True)
        specs = {name: tf.TensorSpec([count], dtype) for name, dtype in types}
        several = tf.map_fn(best, rows, fn_output_signature=specs)
        answers = {**several, **{name.removesuffix("s"): x[:, 0] for name, x in several.items()}}
        if self.answerability:
            of_questions = windows.windows.rows, tf.size(question)
            answers["no_answer_score"] = tf.math.unsorted_segment_min(no_answer, *of_questions)
        return answers

    def parse_input(self, value: Any, where: str) -> QuestionRecord:
        """A dict of `question` and `context`."""
        question, context = self.fields(value, ("question", "context"), where)
        return QuestionRecord(where, where, question, context, (), False)

    def format_output(self, record: QuestionRecord, outputs: Arrays, top_k: int | None) -> Any:
        """A span of the context, or an empty one with the probability that there is no answer.

        With `top_k` a list of this answer and the next best spans.
        """
        found, odds = [], outputs.get("no_answer_score")
        if odds is not None and odds > 0:
            found.append({"answer": "", "score": float(1 / (1 + np.exp(-odds))), "start": 0, "end": 0})
        columns = (outputs[name].tolist() for name in ("scores", "starts", "ends"))
        for score, *places in zip(*columns, strict=True):
            start, end = characters(record.context, places).tolist()
            if start < end or not found:  # behind the last one all are empty
                answer = {"answer": record.context[start:end], "score": score, "start": start, "end": end}
                found.append(answer)
        return found[0] if top_k is None else found[:top_k]
