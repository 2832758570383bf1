"""Multiple choice: predicts the best of the options of a question on a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import INPUT_MASK, LABELS, Tensors
from albert_tf.errors import InputError, check_whole, shorten
from albert_tf.report import Report
from albert_tf.tasks.examples import (
    ChoiceRecord,
    TokenizedExamples,
    TokenizedTexts,
    concat_rows,
    row_lengths,
    tokenize_texts,
)
from albert_tf.tasks.losses import LABEL
from albert_tf.tasks.metrics import accuracy
from albert_tf.tasks.serving import ServingModel
from albert_tf.tasks.task import Arrays, Examples, FinetuningTask, Prediction, TaskEntries
from albert_tf.tasks.task_reports import label_report
from albert_tf.text.offsets import row_edges, rows_of
from albert_tf.text.text_tokenizer import TAIL, InputFormat, check_text, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer

ChoiceRecords = Sequence[ChoiceRecord]

BLANK = "_"

# Tokens of a question with an option; a longer one loses its first tokens.
# Source: google-research/albert, run_race.py.
LONGEST_QUESTION = 128


def question_with_option(question: tf.Tensor, option: tf.Tensor) -> tf.Tensor:
    """Puts the option into the blanks of the question, or after the question if it has none: string [B].

    A blank is one `_` or several in a row.
    Note: google-research/albert puts the option into each `_` of several in a row.
    Source: google-research/albert, race_utils.py.
    """
    parts = tf.strings.split(tf.strings.regex_replace(question, f"{BLANK}+", BLANK), BLANK)  # [B, (parts)]
    rows = rows_of(parts.row_splits)  # [parts]
    is_first, _ = row_edges(rows)
    filled = tf.where(is_first, parts.flat_values, tf.gather(option, rows) + parts.flat_values)
    texts = tf.strings.unsorted_segment_join(filled, rows, tf.size(question))
    return tf.where(parts.row_lengths() > 1, texts, question + " " + option)


def choice_lengths(context: tf.Tensor, question: tf.Tensor, budget: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The number of tokens to keep of a context and of a question with its option.

    Args:
      context: lengths of contexts, int32; a context keeps its first tokens.
      question: lengths of questions with options, int32; a question keeps its last tokens.
      budget: number of tokens to keep of both together.
    Source: google-research/albert, race_utils.py.
    """
    question_length = tf.minimum(question, min(LONGEST_QUESTION, budget))
    return tf.minimum(context, budget - question_length), question_length


def choice_spans(
    contexts: tf.RaggedTensor,
    context_of: tf.Tensor,
    questions: tf.RaggedTensor,
    seq_length: int,
    input_format: InputFormat,
) -> tuple[TokenizedTexts, tf.Tensor]:
    """The spans of `[CLS] context [SEP] question + option [SEP]` for R options, cut to `choice_lengths`.

    Args:
      contexts: tokens of the different contexts, int32 [U, (tokens)].
      context_of: index of each option's context, int32 [R].
      questions: tokens of questions with options, int32 [R, (tokens)].
      seq_length: longest sequence, in tokens.
      input_format: special tokens around the segments.
    Returns:
      The spans, and the number of tokens that were cut off, int32 [R].
    Source: google-research/albert, race_utils.py.
    """
    context_lengths = tf.gather(row_lengths(contexts), context_of)
    lengths = tf.stack([context_lengths, row_lengths(questions)], axis=1)  # [R, 2]
    budget = seq_length - input_format.num_special_tokens(2)
    cut_lengths = tf.stack(choice_lengths(lengths[:, 0], lengths[:, 1], budget), axis=1)
    tokens, (context_starts, question_starts) = concat_rows([contexts, questions])
    question_starts += tf.cast(lengths[:, 1] - cut_lengths[:, 1], tf.int64)
    starts = tf.stack([tf.gather(context_starts, context_of), question_starts], axis=1)
    return TokenizedTexts(tokens, starts, cut_lengths), tf.reduce_sum(lengths - cut_lengths, axis=1)


class MultipleChoice(FinetuningTask):
    """Questions with options; a question may have fewer options than the model."""

    name = "multiple_choice"
    model_kind = "multiple_choice"
    signature = "choose"
    inputs = ("context", "question", "options")
    supported_settings = frozenset({"pooling", "early_exit"})
    losses = LABEL

    def __init__(self, entries: TaskEntries):
        super().__init__(entries)
        self.num_choices: int = entries.get("num_choices", 0)
        self.example = {
            "context": ["The water is warm."],
            "question": ["The water is _ ."],
            "options": [[f"warm {number}" for number in range(self.num_choices)]],
        }

    @classmethod
    def model_config(cls, records: ChoiceRecords) -> dict[str, Any]:
        """Entries of task.json, with the largest number of options of a question."""
        return {"model": cls.model_kind, "num_choices": max(len(record.options) for record in records)}

    @staticmethod
    def targets(records: ChoiceRecords) -> np.ndarray:
        """Numbers of the right options, int32 [N]; an InputError if a question has no label."""
        for record in records:
            if record.label is None:
                raise InputError(f"{record.where}: the question has no label: the right option is not known")
        return np.array([record.label for record in records], np.int32)

    def encode(self, records: ChoiceRecords, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """A row of C sequences for each question; missing options have starts of -1."""
        input_format = tokenizer.vocabulary.input_format
        check_whole("seq_length", self.seq_length, input_format.num_special_tokens(2) + 2)
        self.check_records(records)
        numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
        pairs = [(record.question, option) for record in records for option in record.options]
        counts = np.array([len(record.options) for record in records])

        def question_tokens(*texts: tf.Tensor) -> tf.RaggedTensor:
            return tokenizer.tokenize_shortened(question_with_option(*texts), LONGEST_QUESTION, TAIL)

        spans, dropped = choice_spans(
            tokenize_texts(lambda text: tokenizer.tokenize_shortened(text, self.seq_length), list(numbers)),
            np.repeat([numbers[record.context] for record in records], counts),
            tokenize_texts(question_tokens, *zip(*pairs, strict=True)),
            self.seq_length,
            input_format,
        )
        is_option = np.arange(self.num_choices) < counts[:, np.newaxis]  # [N, C]

        def fill(values: tf.Tensor, missing: int) -> np.ndarray:
            """Arranges values of options, [R, …], by question: [N, C, …]."""
            filled = np.full([*is_option.shape, *values.shape[1:]], missing, values.dtype.as_numpy_dtype)
            filled[is_option] = values.numpy()
            return filled

        rows = TokenizedExamples(
            spans.tokens.numpy(),
            fill(spans.starts, -1),
            fill(spans.lengths, 0),
            {LABELS: self.targets(records)} if is_labelled else {},
            tokenizer.vocabulary,
            dropped=fill(dropped, 0).sum(axis=1, dtype=np.int64),
        )
        return Examples(records, rows)

    def check_records(self, records: ChoiceRecords) -> None:
        """Raises an InputError if a question has only one option, or more than the model."""
        for record in records:
            count, most = len(record.options), self.num_choices
            if not min(2, most) <= count <= most:
                raise InputError(f"{record.where}: {count} options, and the model takes 2 to {most}")

    @staticmethod
    def decide(logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """The likeliest option of each question, `choice` int32 [B], and probabilities, `scores` [B, C]."""
        scores = tf.nn.softmax(tf.cast(logits, tf.float32))
        return {"choice": tf.argmax(logits, axis=1, output_type=tf.int32), "scores": scores}

    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """See `decide`."""
        return self.decide(outputs["logits"])

    def predictions(self, examples: Examples, outputs: Arrays) -> list[Prediction]:
        """The likeliest option of each question."""
        rows = zip(outputs["choice"].tolist(), outputs["scores"], strict=True)
        return [Prediction(choice, scores) for choice, scores in rows]

    def metrics(self, records: ChoiceRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`accuracy`, and `accuracy_<group>` for each group of the records."""
        y_true, y_pred = self.targets(records), np.array([p.value for p in predictions])
        metrics = {"accuracy": accuracy(y_true, y_pred)}
        groups = np.array([record.group for record in records])
        for group in filter(None, dict.fromkeys(groups.tolist())):
            metrics[f"accuracy_{group}"] = accuracy(y_true[groups == group], y_pred[groups == group])
        return metrics

    def report(self, records: ChoiceRecords, predictions: Sequence[Prediction]) -> Report:
        """`label_report` of the questions; the labels are the numbers of options, from 0."""
        y_true, y_pred = self.targets(records), np.array([p.value for p in predictions])
        inputs = {name: [getattr(record, name) for record in records] for name in ("where", *self.inputs)}
        inputs["options"] = [
            "; ".join(f"{n}: {x}" for n, x in enumerate(record.options)) for record in records
        ]
        labels = [str(number) for number in range(self.num_choices)]
        return label_report(labels, y_true, y_pred, np.stack([p.scores for p in predictions]), inputs)

    def check_model(self, served: ServingModel) -> None:
        """Raises an InputError if the model's input is too short for a token of each text."""
        check_whole("seq_length", served.seq_length, served.input_format.num_special_tokens(2) + 2)

    def answer(
        self,
        served: ServingModel,
        context: tf.Tensor,
        question: tf.Tensor,
        options: tf.Tensor,
        patience: tf.Tensor | None = None,
    ) -> Tensors:
        """Chooses among the options, string [B, C], of questions on contexts, string [B] each.

        Returns `choice` int32 [B], from 0, and the probabilities of all options, `scores` float32 [B, C].
        Empty options fill up rows of questions with fewer than C options; their probability is 0. With
        `patience` int32 [B] it returns the number of computed `layers`, too.
        """
        count = served.model.num_choices
        options = tf.ensure_shape(options, [None, count])
        # Concatenation raises an error if the batch sizes differ; the code below would broadcast.
        columns = (ensure_text_batch(text)[:, tf.newaxis] for text in (context, question))
        texts = tf.concat([*columns, options], axis=1)  # [B, 2 + C]
        rows = tf.repeat(tf.range(tf.shape(texts)[0]), count)  # [B·C]
        filled = question_with_option(tf.gather(texts[:, 1], rows), tf.reshape(texts[:, 2:], [-1]))
        (contexts,) = served.tokenize(texts[:, 0])
        questions = served.tokenizer.tokenize_shortened(filled, LONGEST_QUESTION, TAIL)
        spans, _ = choice_spans(contexts, rows, questions, served.seq_length, served.input_format)
        inputs = served.pack_spans(spans)
        is_option = tf.cast(tf.reshape(options, [-1, 1]) != "", tf.int32)  # [B·C, 1]
        inputs = {**inputs, INPUT_MASK: inputs[INPUT_MASK] * is_option}
        logits, layers = served.logits(inputs, patience)  # [B·C, 1]
        return {**self.decide(tf.reshape(logits, [-1, count])), **layers}

    def parse_input(self, value: Any, where: str) -> ChoiceRecord:
        """Checks a dict of `context`, `question` and `options`."""
        context, question = self.fields(value, ("context", "question"), where)
        options = value.get("options")
        if isinstance(options, str) or not isinstance(options, Sequence):
            raise InputError(f"{where}['options']={shorten(options)} is not a list of texts")
        texts = tuple(check_text(option, f"{where}['options'][{n}]") for n, option in enumerate(options))
        if "" in texts:
            raise InputError(f"{where}['options'][{texts.index('')}] is empty: leave it out")
        record = ChoiceRecord(where, where, "", context, question, texts, None)
        self.check_records([record])
        return record

    def to_model_inputs(self, records: ChoiceRecords) -> tuple[str, dict[str, Any]]:
        """Texts, with empty ones for missing options."""
        signature, texts = super().to_model_inputs(records)
        for options in texts["options"]:
            options += [b""] * (self.num_choices - len(options))
        return signature, texts

    def format_output(self, record: ChoiceRecord, outputs: Arrays, top_k: int | None) -> dict[str, Any]:
        """The number of the likeliest option, from 0."""
        choice = int(outputs["choice"])
        return {"label": choice, "score": float(outputs["scores"][choice])}
