"""Question answering: a question on a context of any length to a span of it, or to none."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence
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
from albert_tf.tasks.datasets.squad import read_squad
from albert_tf.tasks.examples.predictions import AnswerPrediction, FoundAnswer, characters
from albert_tf.tasks.examples.records import QuestionRecord
from albert_tf.tasks.examples.rows import (
    Spans,
    check_length,
    joined,
    row_lengths,
    token_rows,
    tokenised,
    utf8,
)
from albert_tf.tasks.examples.texts import check_fields
from albert_tf.tasks.files.own import answer_files
from albert_tf.tasks.kind import Arrays, Examples, FinetunedKind, TaskConfig, Tensors, to_length
from albert_tf.tasks.losses import ANSWER, SPAN
from albert_tf.tasks.metrics.squad import squad_scores
from albert_tf.tasks.serving import Served, Signature, in_blocks, text_spec
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.tokenizers.kinds import TextTokenizer
from albert_tf.tokenizers.windows import Windows, sliding_windows
from albert_tf.utils.errors import InputError

CONTEXTS_AT_ONCE = 64
NO_ANSWER = "no_answer_logits"

QuestionRecords = Sequence[QuestionRecord]


def question_spans(
    questions: tf.RaggedTensor,
    contexts: tf.RaggedTensor,
    context_of: tf.Tensor,
    seq_length: int,
    settings: QuestionSettings,
    input_format: InputFormat,
) -> tuple[Spans, Windows]:
    """`[CLS] question [SEP] window of the context [SEP]` of each window of questions.

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
    return Spans(tokens, tf.stack(starts, axis=1), tf.stack(lengths, axis=1)), windows


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
    """Places of the windows of questions in their contexts."""

    windows: Windows  # of all questions, as arrays
    contexts: Sequence[bytes]  # different ones, UTF-8
    context_of: np.ndarray  # number of each question's context, int [Q]
    token_starts: Sequence[np.ndarray]  # of each context, the first byte of each token, int64 [T]
    token_ends: Sequence[np.ndarray]  # of each context, the byte after the last of each token


class QuestionAnswering(FinetunedKind):
    """Spans of contexts; with answerability there may be no answer."""

    name = "question_answering"
    model = "span_labeler"
    signature = "answer"
    inputs = ("question", "context")
    has_windows = True
    best_metric = "f1"
    read_file = staticmethod(lambda file, needs_labels, columns: read_squad(file, True, needs_labels))
    prediction_files = staticmethod(answer_files)

    def __init__(self, config: TaskConfig):
        super().__init__(config)
        self.answerability: bool = config.get("answerability", False)
        names = [field.name for field in dataclasses.fields(QuestionSettings)]
        self.settings = QuestionSettings(**{name: config[name] for name in names if name in config})
        self.losses = ANSWER if self.answerability else SPAN
        # Training knows the true start of an answer, prediction the likeliest.
        self.has_evaluation_loss = not self.answerability

    @classmethod
    def model_config(cls, records: QuestionRecords, answerability: bool = False) -> dict[str, Any]:
        """With `answerability`, questions may have no answer."""
        return {"model": cls.model, **({"answerability": True} if answerability else {})}

    def encode(self, records: QuestionRecords, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """A row for each window; one without the whole of the first annotated answer has none.

        Note: answers are found by byte offsets and not by an alignment of characters, which loses some.
        """
        input_format = tokenizer.vocabulary.input_format
        check_length("seq_length", self.seq_length, self._shortest(input_format))
        numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
        context_of = np.array([numbers[record.context] for record in records])
        contexts, *offsets = tokenised(
            tokenizer.tokenize_with_offsets, list(numbers), at_once=CONTEXTS_AT_ONCE
        )
        questions = tokenised(tokenizer, [record.question for record in records])
        with tf.device("CPU:0"):
            spans, windows = question_spans(
                questions, contexts, context_of, self.seq_length, self.settings, input_format
            )
        places = Places(
            Windows(*(values.numpy() for values in windows)),
            [utf8(text) for text in numbers],
            context_of,
            *(np.split(of.flat_values.numpy(), of.row_splits.numpy()[1:-1]) for of in offsets),
        )
        features = {}
        if is_labelled:
            question_lengths = spans.lengths[:, :1].numpy()
            features = _labels(records, places, input_format.bounds([question_lengths] * 2)[0][1])
        return Examples(records, token_rows(spans, tokenizer.vocabulary, features), places)

    def keep(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Candidates for answers [B, C], and the logit of no answer [B].

        Note: padding is never among the likeliest starts and ends, as it can be in google-research/albert, so
        that the n best answers do not depend on how much of it there is.
        """
        mask = batch[MASK]
        if not self.answerability:
            mask = to_length(mask, self.seq_length)
            outputs = {name: to_length(of, self.seq_length, IMPOSSIBLE) for name, of in outputs.items()}
        found, no_answer = self._candidates(outputs, mask)
        return {**found._asdict(), NO_ANSWER: no_answer}

    def _candidates(self, outputs: Tensors, mask: tf.Tensor) -> tuple[Candidates, tf.Tensor]:
        """Candidates [W, C], and the logit of no answer, float32 [W], 0 without answerability."""
        found = labeler_candidates(outputs, mask, self.settings.n_best)
        return found, tf.cast(outputs.get(NO_ANSWER, tf.zeros_like(mask[:, 0])), tf.float32)

    def decode(self, examples: Examples, outputs: Arrays) -> list[AnswerPrediction]:
        """The best answers to each question over all windows of its context."""
        places: Places = examples.places
        numbers, log_probs = tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None, None], tf.float32)
        function = tf.function(  # traced once for any number of windows and tokens
            functools.partial(answers_of, self.settings, examples.rows.input_format, self.seq_length),
            input_signature=[
                Candidates(numbers, numbers, log_probs, log_probs),
                tf.TensorSpec([None, 2], tf.int32),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([None], tf.int64),
                tf.TensorSpec([None], tf.int64),
                tf.TensorSpec([], tf.string),
            ],
        )
        splits = np.searchsorted(places.windows.rows, np.arange(len(examples.records) + 1)).tolist()
        predictions = []
        for context, (first, after) in zip(places.context_of, itertools.pairwise(splits), strict=True):
            found = function(
                Candidates(*(outputs[name][first:after] for name in Candidates._fields)),
                examples.rows.lengths[first:after],
                places.windows.starts[first:after],
                places.token_starts[context],
                places.token_ends[context],
                places.contexts[context],
            )
            columns = [column.numpy().tolist() for column in found]
            answers = [FoundAnswer(text.decode(), *row) for text, *row in zip(*columns, strict=True)]
            null_odds = float(outputs[NO_ANSWER][first:after].min()) if self.answerability else None
            predictions.append(AnswerPrediction(tuple(answers), null_odds))
        return predictions

    def _shortest(self, input_format: InputFormat) -> int:
        """Tokens of an input with the longest question and one token of a context."""
        return self.settings.max_query_length + input_format.num_special_tokens(2) + 1

    @classmethod
    def metrics(cls, records: QuestionRecords, predictions: Sequence[AnswerPrediction]) -> dict[str, float]:
        """Those of SQuAD's scripts, in per cent; with null odds also the best of all thresholds."""
        found = {record.id: prediction for record, prediction in zip(records, predictions, strict=True)}
        odds = {key: p.null_odds for key, p in found.items() if p.null_odds is not None}
        questions = [
            {
                "id": record.id,
                "answers": [{"text": answer.text} for answer in record.answers],
                **({"is_impossible": record.is_impossible} if odds else {}),
            }
            for record in records
        ]
        answers = {key: prediction.text() for key, prediction in found.items()}
        return squad_scores({"data": [{"paragraphs": [{"qas": questions}]}]}, answers, odds or None)

    def signatures(self, served: Served) -> dict[str, Signature]:
        """`answer`: from `question` and `context` string [B], of any length, to the best span of the context.

        It answers `answer` string [B], its probability among the n best, `score` float32 [B], `start` and
        `end` int32 [B], its first byte in the context and the one after its last; and with answerability
        `no_answer_score` float32 [B], above 0 where the model says that there is no answer. Where no span
        counts, the answer is empty.
        """
        model, input_format = served.model, served.input_format
        # Tokens that an input of the model needs, whatever they are.
        shortest = max(model.start_n_top, model.end_n_top) if self.answerability else 1
        check_length("seq_length", served.seq_length, max(self._shortest(input_format), shortest))

        def candidates(inputs: Tensors) -> tuple[Candidates, tf.Tensor]:
            return self._candidates(served.outputs(inputs), inputs[MASK])

        @tf.function(input_signature=[text_spec("question"), text_spec("context")])
        def answer(question: tf.Tensor, context: tf.Tensor) -> Tensors:
            texts = [tf.ensure_shape(text, [None]) for text in (question, context)]
            # Stacked, since that raises where the batch sizes differ: what follows would go on.
            question, context = tf.unstack(tf.stack(texts))
            tokens, starts, ends = served.tokenizer.tokenize_with_offsets(context)
            rows = tf.range(tf.size(question))
            spans, windows = question_spans(
                served.tokenizer(question), tokens, rows, served.seq_length, self.settings, input_format
            )
            inputs = served.packed(spans, shortest)
            types = Candidates(tf.int32, tf.int32, tf.float32, tf.float32), tf.float32
            found, no_answer = in_blocks(candidates, inputs, types)
            length = tf.shape(inputs[MASK])[1]

            def best(row: tf.Tensor) -> dict[str, tf.Tensor]:
                lengths, first_tokens, *of_question = (
                    tf.boolean_mask(values, windows.rows == row)
                    for values in (spans.lengths, windows.starts, *found)
                )
                answers = answers_of(
                    self.settings,
                    input_format,
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

            outputs = {"answer": tf.string, "score": tf.float32, "start": tf.int32, "end": tf.int32}
            answers = tf.map_fn(best, rows, fn_output_signature=outputs)
            if self.answerability:
                answers["no_answer_score"] = tf.math.unsorted_segment_min(
                    no_answer, windows.rows, tf.size(question)
                )
            return answers

        example = {"question": ["How is the water?"], "context": ["The water is warm, and the sea is cold."]}
        return {"answer": Signature(answer, example)}

    def read(self, value: Any, where: str) -> QuestionRecord:
        """A dict of `question` and `context`."""
        question, context = check_fields(value, ("question", "context"), where)
        return QuestionRecord(where, where, question, context, (), False)

    def answer(self, record: QuestionRecord, outputs: Arrays, top_k: int | None) -> dict[str, Any]:
        """A span of the context, or an empty one with the probability that there is no answer."""
        odds = outputs.get("no_answer_score")
        if odds is not None and odds > 0:
            return {"answer": "", "score": float(1 / (1 + np.exp(-odds))), "start": 0, "end": 0}
        start, end = characters(record.context, int(outputs["start"]), int(outputs["end"]))
        text, score = record.context[start:end], float(outputs["score"])
        return {"answer": text, "score": score, "start": start, "end": end}


def _labels(records: QuestionRecords, places: Places, columns: np.ndarray) -> dict[str, np.ndarray]:
    """Labels of windows, [W] each: positions of the first and last token of answers, 0 for none.

    The first token of a window is in its column, [W, 1].
    """
    spans = np.array([answer_span(r, places, n) for r, n in zip(records, places.context_of, strict=True)])
    windows = places.windows
    spans = spans[windows.rows] - windows.starts[:, np.newaxis]  # [W, 2], tokens of windows
    is_inside = (spans[:, 0] >= 0) & (spans[:, 1] < windows.lengths)
    positions = np.where(is_inside[:, np.newaxis], spans + columns, 0).astype(np.int32)
    return {
        START_POSITIONS: positions[:, 0],
        END_POSITIONS: positions[:, 1],
        IS_IMPOSSIBLE: (~is_inside).astype(np.int32),
    }


def answer_span(record: QuestionRecord, places: Places, context: int) -> tuple[int, int]:
    """First and last token of a question's first answer in its context; -1 where it has none."""
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
