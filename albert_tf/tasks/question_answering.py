"""Question answering: a question on a context of any length to a span of it, or to none."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.features import END_POSITIONS, IS_IMPOSSIBLE, MASK, START_POSITIONS
from albert_tf.models.spans import (
    IMPOSSIBLE,
    Answers,
    Candidates,
    best_answers,
    best_context,
    labeler_candidates,
    possible,
)
from albert_tf.recipes import QuestionSettings
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.datasets.squad import read_squad
from albert_tf.tasks.examples.predictions import AnswerPrediction, FoundAnswer, characters
from albert_tf.tasks.examples.records import QuestionRecord
from albert_tf.tasks.examples.rows import TokenRows, check_length, framing, row_lengths, tokenised, utf8
from albert_tf.tasks.examples.texts import check_fields, joined
from albert_tf.tasks.files.destination import Files, Form
from albert_tf.tasks.files.own import answer_files
from albert_tf.tasks.kind import Arrays, Examples, FinetunedKind, PathLike, TaskConfig, Tensors
from albert_tf.tasks.losses import ANSWER, SPAN, LossPart
from albert_tf.tasks.metrics.squad import squad_scores
from albert_tf.tasks.serving import Served, Signature, in_blocks, text_spec
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.tokenizers.kinds import TextTokenizer
from albert_tf.tokenizers.windows import Windows, sliding_windows
from albert_tf.utils.errors import InputError

CONTEXTS_AT_ONCE = 64
CANDIDATE_TYPES = Candidates(tf.int32, tf.int32, tf.float32, tf.float32)


class QuestionSpans(NamedTuple):
    """`[CLS] question [SEP] window of the context [SEP]` of each window, as spans of tokens.

    Attributes:
      tokens: of all texts, int32 [T].
      starts: of question and window, int64 [W, 2].
      lengths: int32 [W, 2].
      windows: on the contexts of the questions.
    """

    tokens: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    windows: Windows


def question_spans(
    questions: tf.RaggedTensor,
    contexts: tf.RaggedTensor,
    context_of: tf.Tensor,
    seq_length: int,
    settings: QuestionSettings,
    input_format: InputFormat,
) -> QuestionSpans:
    """The inputs of questions.

    Args:
      questions: int32 [Q, (tokens)].
      contexts: of different contexts, int32 [U, (tokens)].
      context_of: number of each question's context, int32 [Q].
      seq_length: longest sequence, S.
      settings: of windows.
      input_format: special tokens.
    Source: google-research/albert, `convert_examples_to_features` in squad_utils.py.
    """
    question_lengths = tf.minimum(row_lengths(questions), settings.max_query_length)  # [Q]
    context_lengths = tf.gather(row_lengths(contexts), context_of)  # [Q]
    budgets = seq_length - input_format.num_special_tokens(2) - question_lengths  # [Q]
    windows = sliding_windows(context_lengths, budgets, settings.doc_stride)
    tokens, (question_starts, context_starts) = joined([questions, contexts])
    starts = [
        tf.gather(question_starts, windows.rows),
        tf.gather(context_starts, tf.gather(context_of, windows.rows)) + tf.cast(windows.starts, tf.int64),
    ]
    lengths = [tf.gather(question_lengths, windows.rows), windows.lengths]
    return QuestionSpans(tokens, tf.stack(starts, axis=-1), tf.stack(lengths, axis=-1), windows)


def answers_of(
    settings: QuestionSettings,
    input_format: InputFormat,
    seq_length: tf.Tensor | int,
    candidates: Candidates,
    lengths: tf.Tensor,
    first_tokens: tf.Tensor,
    token_starts: tf.Tensor,
    token_ends: tf.Tensor,
    context: tf.Tensor,
) -> Answers:
    """The best answers to one question.

    Args:
      settings: which spans count, and how many are wanted.
      input_format: special tokens.
      seq_length: positions of a window, S.
      candidates: of its windows, [W, C].
      lengths: of question and window, int32 [W, 2].
      first_tokens: first token of each window in the context, int32 [W].
      token_starts: first byte of each token of the context, int64 [T].
      token_ends: byte after its last, int64 [T].
      context: string [].
    """
    (_, first), _ = input_format.bounds([lengths[:, :1], lengths[:, 1:]])  # column of the context, [W, 1]
    places = tf.range(seq_length) - first  # [W, S], in the window
    in_context = (places >= 0) & (places < lengths[:, 1:])
    is_best = best_context(in_context, first_tokens, tf.zeros_like(first_tokens))
    counts = possible(candidates, in_context, is_best, settings.max_answer_length)
    tokens = tf.clip_by_value(first_tokens[:, tf.newaxis] + places, 0, tf.size(token_starts))  # [W, S]
    starts, ends = (
        tf.gather(tf.concat([values, [0]], axis=0), tokens) for values in (token_starts, token_ends)
    )
    return best_answers(candidates, counts, starts, ends, context, settings.n_best)


class Places(NamedTuple):
    """Places of the windows of questions in their contexts.

    Attributes:
      questions: question of each window, int32 [W].
      first_tokens: its first token in the context, int32 [W].
      contexts: different contexts, UTF-8.
      context_of: number of each question's context, int [Q].
      token_starts: of each context, the first byte of each token, int64 [T].
      token_ends: of each context, the byte after the last of each token.
      input_format: special tokens.
    """

    questions: np.ndarray
    first_tokens: np.ndarray
    contexts: Sequence[bytes]
    context_of: np.ndarray
    token_starts: Sequence[np.ndarray]
    token_ends: Sequence[np.ndarray]
    input_format: InputFormat


class QuestionAnswering(FinetunedKind):
    """Spans of contexts; with answerability there may be no answer."""

    name = "question_answering"
    model = "span_labeler"
    has_windows = True
    best_metric = "f1"

    def __init__(self, config: TaskConfig):
        super().__init__(config)
        self.answerability: bool = config.get("answerability", False)
        names = [field.name for field in dataclasses.fields(QuestionSettings)]
        self.settings = QuestionSettings(**{name: config[name] for name in names if name in config})

    @classmethod
    def model_config(cls, records: Sequence[QuestionRecord], answerability: bool = False) -> dict[str, Any]:
        """With `answerability`, questions may have no answer."""
        return {"model": cls.model, **({"answerability": True} if answerability else {})}

    @classmethod
    def read_file(cls, file: PathLike, needs_labels: bool, columns: Columns | None) -> list[QuestionRecord]:
        """Questions in SQuAD's format."""
        return read_squad(file, has_impossible=True, needs_answers=needs_labels)

    def encode(
        self, records: Sequence[QuestionRecord], tokenizer: TextTokenizer, is_labelled: bool
    ) -> Examples:
        """A row for each window; one without the whole of the first annotated answer has none.

        Note: answers are found by byte offsets and not by an alignment of characters, which loses some.
        """
        input_format = tokenizer.vocabulary.input_format
        check_length("seq_length", self.seq_length, self._shortest(input_format))
        numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
        context_of = np.array([numbers[record.context] for record in records])
        contexts, starts, ends = tokenised(
            tokenizer.tokenize_with_offsets, list(numbers), at_once=CONTEXTS_AT_ONCE
        )
        questions = tokenised(tokenizer, [record.question for record in records])
        with tf.device("CPU:0"):
            spans = question_spans(
                questions,
                contexts,
                context_of,
                self.seq_length,
                self.settings,
                input_format,
            )
        token_starts, token_ends = (
            np.split(offsets.flat_values.numpy(), offsets.row_splits.numpy()[1:-1])
            for offsets in (starts, ends)
        )
        places = Places(
            spans.windows.rows.numpy(),
            spans.windows.starts.numpy(),
            [utf8(text) for text in numbers],
            context_of,
            token_starts,
            token_ends,
            input_format,
        )
        lengths = spans.lengths.numpy()
        features = _positions(records, places, lengths) if is_labelled else {}
        parts = spans.tokens.numpy(), spans.starts.numpy(), lengths, features
        rows = TokenRows(*parts, **framing(tokenizer.vocabulary))
        return Examples(records, rows, places)

    @property
    def losses(self) -> Mapping[str, LossPart]:
        """Cross-entropies of start and end, and of whether there is an answer."""
        return ANSWER if self.answerability else SPAN

    @property
    def has_evaluation_loss(self) -> bool:
        """False with answerability: training knows the true start of an answer, prediction the likeliest."""
        return not self.answerability

    def keep(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Candidates for answers, [B, C] each.

        Note: padding is never among the likeliest starts and ends, as it can be in google-research/albert, so
        that the n best answers do not depend on how much of it there is.
        """
        mask = batch[MASK]
        if not self.answerability:
            missing = [[0, 0], [0, self.seq_length - tf.shape(mask)[1]]]
            mask = tf.pad(mask, missing)
            outputs = {
                name: tf.ensure_shape(
                    tf.pad(logits, missing, constant_values=IMPOSSIBLE), [None, self.seq_length]
                )
                for name, logits in outputs.items()
            }
        found = labeler_candidates(outputs, mask, self.settings.n_best)._asdict()
        return {**found, **_no_answer(outputs)}

    def decode(self, examples: Examples, outputs: Arrays) -> list[AnswerPrediction]:
        """The best answers to each question over all windows of its context."""
        places: Places = examples.places
        odds = outputs.get("no_answer_logits")
        count = len(examples.records)
        splits = np.searchsorted(places.questions, np.arange(count + 1)).tolist()
        function = self._answer_function(places.input_format)
        predictions = []
        for context, (first, after) in zip(places.context_of, itertools.pairwise(splits), strict=True):
            found = function(
                Candidates(*(outputs[name][first:after] for name in Candidates._fields)),
                examples.rows.lengths[first:after],
                places.first_tokens[first:after],
                places.token_starts[context],
                places.token_ends[context],
                places.contexts[context],
            )
            columns = [column.numpy().tolist() for column in found]
            answers = [FoundAnswer(text.decode(), *row) for text, *row in zip(*columns, strict=True)]
            null_odds = None if odds is None else float(odds[first:after].min())
            predictions.append(AnswerPrediction(tuple(answers), null_odds))
        return predictions

    def _shortest(self, input_format: InputFormat) -> int:
        """Tokens of an input with the longest question and one token of a context."""
        return self.settings.max_query_length + input_format.num_special_tokens(2) + 1

    def _answer_function(self, input_format: InputFormat) -> tf.types.experimental.GenericFunction:
        """`answers_of`, as a graph that is traced once for any number of windows and tokens."""
        numbers, log_probs = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None], tf.float32)
        signature = [
            Candidates(numbers, numbers, log_probs, log_probs),
            tf.TensorSpec([None, 2], tf.int32),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([], tf.string),
        ]

        function = functools.partial(answers_of, self.settings, input_format, self.seq_length)
        return tf.function(function, input_signature=signature)

    @classmethod
    def metrics(
        cls, records: Sequence[QuestionRecord], predictions: Sequence[AnswerPrediction]
    ) -> dict[str, float]:
        """Those of SQuAD's scripts, in per cent; with null odds also the best of all thresholds."""
        found = {record.id: prediction for record, prediction in zip(records, predictions, strict=True)}
        answers = {key: prediction.text() for key, prediction in found.items()}
        odds = {key: p.null_odds for key, p in found.items() if p.null_odds is not None}
        questions = [
            {
                "id": record.id,
                "answers": [{"text": answer.text} for answer in record.answers],
                **({"is_impossible": record.is_impossible} if odds else {}),
            }
            for record in records
        ]
        return squad_scores({"data": [{"paragraphs": [{"qas": questions}]}]}, answers, odds or None)

    @classmethod
    def prediction_files(cls, source: PathLike, records: Sequence[QuestionRecord], form: Form) -> Files:
        """Files that SQuAD's evaluation scripts read."""
        return answer_files(records, form)

    def signatures(self, served: Served) -> dict[str, Signature]:
        """`answer`: from `question` and `context` string [B], of any length, to the best span of the context.

        It answers `answer` string [B], its probability among the n best, `score` float32 [B], `start` and
        `end` int32 [B], its first byte in the context and the one after its last; and with answerability
        `no_answer_score` float32 [B], above 0 where the model says that there is no answer. Where no span
        counts, the answer is empty.
        """
        model = served.model
        # Tokens that an input of the model needs, whatever they are.
        shortest = max(model.start_n_top, model.end_n_top) if self.answerability else 1
        served.check_length(max(self._shortest(served.input_format), shortest))

        def candidates(inputs: Tensors) -> tuple[Candidates, tf.Tensor]:
            outputs = served.outputs(inputs)
            none = _no_answer(outputs).get("no_answer_logits", tf.zeros_like(inputs[MASK][:, 0], tf.float32))
            return labeler_candidates(outputs, inputs[MASK], self.settings.n_best), none

        @tf.function(input_signature=[text_spec("question"), text_spec("context")])
        def answer(question: tf.Tensor, context: tf.Tensor) -> Tensors:
            texts = [tf.ensure_shape(text, [None]) for text in (question, context)]
            # Stacked, since that raises where the batch sizes differ: what follows would go on.
            question, context = tf.unstack(tf.stack(texts))
            tokens, starts, ends = served.tokenizer.tokenize_with_offsets(context)
            rows = tf.range(tf.size(question))
            spans = question_spans(
                served.tokenizer(question),
                tokens,
                rows,
                served.seq_length,
                self.settings,
                served.input_format,
            )
            inputs = served.packed(spans.tokens, spans.starts, spans.lengths, shortest)
            found, none = in_blocks(candidates, inputs, (CANDIDATE_TYPES, tf.float32))
            length = tf.shape(inputs[MASK])[1]

            def best(row: tf.Tensor) -> dict[str, tf.Tensor]:
                of_row = spans.windows.rows == row  # [W]
                lengths, first_tokens, *of_question = (
                    tf.boolean_mask(values, of_row)
                    for values in (spans.lengths, spans.windows.starts, *found)
                )
                answers = answers_of(
                    self.settings,
                    served.input_format,
                    length,
                    Candidates(*of_question),
                    lengths,
                    first_tokens,
                    starts[row],
                    ends[row],
                    context[row],
                )
                return {
                    "answer": answers.text[0],
                    "score": tf.cast(answers.probability[0], tf.float32),
                    "start": answers.start[0],
                    "end": answers.end[0],
                }

            types = {"answer": tf.string, "score": tf.float32, "start": tf.int32, "end": tf.int32}
            answers = tf.map_fn(best, rows, fn_output_signature=types)
            if self.answerability:
                answers["no_answer_score"] = tf.math.unsorted_segment_min(
                    none, spans.windows.rows, tf.size(question)
                )
            return answers

        example = {"question": ["How is the water?"], "context": ["The water is warm, and the sea is cold."]}
        return {"answer": Signature(answer, example)}

    def read(self, value: Any, where: str) -> QuestionRecord:
        """A dict of `question` and `context`."""
        question, context = check_fields(value, ("question", "context"), where)
        return QuestionRecord(where, where, question, context, (), False)

    def request(self, records: Sequence[QuestionRecord]) -> tuple[str, dict[str, Any]]:
        """Questions and contexts."""
        questions = [utf8(record.question) for record in records]
        return "answer", {"question": questions, "context": [utf8(record.context) for record in records]}

    def answer(self, record: QuestionRecord, outputs: Arrays, top_k: int | None) -> dict[str, Any]:
        """A span of the context, or an empty one with the probability that there is no answer."""
        odds = outputs.get("no_answer_score")
        if odds is not None and odds > 0:
            return {"answer": "", "score": float(1 / (1 + np.exp(-odds))), "start": 0, "end": 0}
        start, end = characters(record.context, int(outputs["start"]), int(outputs["end"]))
        return {
            "answer": record.context[start:end],
            "score": float(outputs["score"]),
            "start": start,
            "end": end,
        }


def _no_answer(outputs: Tensors) -> dict[str, tf.Tensor]:
    """The logit of no answer of each window, float32 [W]; nothing without answerability."""
    name = "no_answer_logits"
    return {name: tf.cast(outputs[name], tf.float32)} if name in outputs else {}


def _positions(
    records: Sequence[QuestionRecord], places: Places, lengths: np.ndarray
) -> dict[str, np.ndarray]:
    """Labels of windows, [W] each: positions of the first and last token of answers, 0 for none."""
    spans = np.array([answer_span(r, places, n) for r, n in zip(records, places.context_of, strict=True)])
    spans = spans[places.questions]  # [W, 2], tokens of contexts
    in_window = spans - places.first_tokens[:, np.newaxis]
    is_inside = (spans[:, 0] >= 0) & (in_window[:, 0] >= 0) & (in_window[:, 1] < lengths[:, 1])
    (_, first), _ = places.input_format.bounds([lengths[:, :1], lengths[:, 1:]])  # [W, 1]
    positions = np.where(is_inside[:, np.newaxis], in_window + first, 0).astype(np.int32)
    return {
        START_POSITIONS: positions[:, 0],
        END_POSITIONS: positions[:, 1],
        IS_IMPOSSIBLE: (~is_inside).astype(np.int32),
    }


def answer_span(record: QuestionRecord, places: Places, context: int) -> tuple[int, int]:
    """First and last token of a question's first answer in its context; -1 where it has none.

    Raises:
      InputError: normalisation leaves nothing of it.
    """
    if not record.answers:
        return -1, -1
    text, start = record.answers[0]
    before = record.context[:start] + text[: len(text) - len(text.lstrip())]
    begin = len(utf8(before))
    end = begin + len(utf8(text.strip()))
    first = int(np.searchsorted(places.token_ends[context], begin, side="right"))
    last = int(np.searchsorted(places.token_starts[context], end, side="left")) - 1
    if first > last:
        raise InputError(f"{record.where}: no token is left of the answer {text!r}")
    return first, last
