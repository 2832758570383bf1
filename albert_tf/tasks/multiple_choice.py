"""Multiple choice: a question on a context to the number of the best of its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.features import LABELS
from albert_tf.tasks.datasets.choices import read_choices
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.examples.predictions import ChoicePrediction
from albert_tf.tasks.examples.records import ChoiceRecord, lookup
from albert_tf.tasks.examples.rows import TokenRows, check_length, framing, row_lengths, tokenised, utf8
from albert_tf.tasks.examples.texts import check_fields, joined
from albert_tf.tasks.files.destination import Files, Form
from albert_tf.tasks.files.own import choice_files
from albert_tf.tasks.kind import Arrays, Examples, FinetunedKind, PathLike, TaskConfig, Tensors
from albert_tf.tasks.losses import LABEL, LossPart
from albert_tf.tasks.metrics.labels import accuracy
from albert_tf.tasks.serving import Served, Signature, text_spec
from albert_tf.tokenizers.given import check_text
from albert_tf.tokenizers.input_format import InputFormat
from albert_tf.tokenizers.kinds import TextTokenizer
from albert_tf.tokenizers.options import SHORTEST_CHOICE, choice_lengths, question_with_option
from albert_tf.utils.errors import InputError, shown


class ChoiceSpans(NamedTuple):
    """`[CLS] context [SEP] question + option [SEP]` of each option, as spans of tokens.

    The context loses what does not fit, at its end; of a long question the last tokens stay.

    Attributes:
      tokens: of all texts, int32 [T].
      starts: of context and question, int64 [R, 2].
      lengths: int32 [R, 2].
      dropped: tokens that did not fit, int32 [R].
    """

    tokens: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    dropped: tf.Tensor


def choice_spans(
    contexts: tf.RaggedTensor,
    context_of: tf.Tensor,
    questions: tf.RaggedTensor,
    seq_length: int,
    input_format: InputFormat,
) -> ChoiceSpans:
    """The inputs of R options.

    Args:
      contexts: tokens of different contexts, int32 [U, (tokens)].
      context_of: number of each option's context, int32 [R].
      questions: tokens of question and option, int32 [R, (tokens)].
      seq_length: longest sequence, S.
      input_format: special tokens.
    Source: google-research/albert, race_utils.py.
    """
    context_lengths = tf.gather(row_lengths(contexts), context_of)  # [R]
    question_lengths = row_lengths(questions)
    context_kept, question_kept = choice_lengths(context_lengths, question_lengths, seq_length, input_format)
    tokens, (context_starts, question_starts) = joined([contexts, questions])
    starts = [
        tf.gather(context_starts, context_of),
        question_starts + tf.cast(question_lengths - question_kept, tf.int64),
    ]
    dropped = context_lengths - context_kept + question_lengths - question_kept
    return ChoiceSpans(
        tokens, tf.stack(starts, axis=-1), tf.stack([context_kept, question_kept], axis=-1), dropped
    )


class MultipleChoice(FinetunedKind):
    """Questions with the same number of options each."""

    name = "multiple_choice"
    model = "multiple_choice"
    is_pooled = True

    def __init__(self, config: TaskConfig):
        super().__init__(config)
        self.num_choices: int | None = config.get("num_choices")

    @classmethod
    def model_config(cls, records: Sequence[ChoiceRecord]) -> dict[str, Any]:
        """The number of options."""
        return {"model": cls.model, "num_choices": len(records[0].options)}

    @classmethod
    def read_file(cls, file: PathLike, needs_labels: bool, columns: Columns | None) -> list[ChoiceRecord]:
        """Questions as JSON lines."""
        return read_choices(file, needs_labels)

    def encode(
        self, records: Sequence[ChoiceRecord], tokenizer: TextTokenizer, is_labelled: bool
    ) -> Examples:
        """A row of C sequences for each question."""
        check_length("seq_length", self.seq_length, SHORTEST_CHOICE)
        for record in records:
            self._check_options(record)
        numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
        pairs = [(record.question, option) for record in records for option in record.options]
        shape = [len(records), len(records[0].options)]
        context_of = np.repeat([numbers[record.context] for record in records], shape[1])
        questions = tokenised(
            lambda *texts: tokenizer(question_with_option(*texts)), *zip(*pairs, strict=True)
        )
        spans = choice_spans(
            tokenised(tokenizer, list(numbers)),
            context_of,
            questions,
            self.seq_length,
            tokenizer.vocabulary.input_format,
        )
        features = {LABELS: np.array([_right_option(r) for r in records], np.int32)} if is_labelled else {}
        rows = TokenRows(
            spans.tokens.numpy(),
            spans.starts.numpy().reshape([*shape, 2]),
            spans.lengths.numpy().reshape([*shape, 2]),
            features,
            **framing(tokenizer.vocabulary),
            dropped=spans.dropped.numpy().reshape(shape).sum(axis=1, dtype=np.int64),
        )
        return Examples(records, rows)

    def _check_options(self, record: ChoiceRecord) -> None:
        if len(record.options) != self.num_choices:
            raise InputError(
                f"{record.where}: {len(record.options)} options where the model knows {self.num_choices}"
            )

    @property
    def losses(self) -> Mapping[str, LossPart]:
        """Cross-entropy."""
        return LABEL

    def keep(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """Probabilities [B, C]."""
        return {"probabilities": tf.nn.softmax(outputs["logits"])}

    def decode(self, examples: Examples, outputs: Arrays) -> list[ChoicePrediction]:
        """The likeliest option of each question."""
        return [ChoicePrediction(int(row.argmax()), row) for row in outputs["probabilities"]]

    @classmethod
    def metrics(
        cls,
        records: Sequence[ChoiceRecord],
        predictions: Sequence[ChoicePrediction],
        groups: Sequence[str] = (),
    ) -> dict[str, float]:
        """`accuracy`, and `accuracy_<group>` of the groups that there are."""
        metrics = {}
        for name, wanted in {"accuracy": None, **{f"accuracy_{group}": group for group in groups}}.items():
            pairs = [
                (_right_option(record), found.choice)
                for record, found in zip(records, predictions, strict=True)
                if wanted in (None, record.group)
            ]
            if pairs:
                metrics[name] = accuracy(*zip(*pairs, strict=True))
        return metrics

    @classmethod
    def prediction_files(cls, source: PathLike, records: Sequence[ChoiceRecord], form: Form) -> Files:
        """The questions with two more columns."""
        return choice_files(source, form)

    def signatures(self, served: Served) -> dict[str, Signature]:
        """`choose`: from `context`, `question` string [B] and `options` string [B, C] to the best option.

        It answers `choice` int32 [B], from 0, and the probabilities of all, `scores` float32 [B, C].
        """
        served.check_length(SHORTEST_CHOICE)
        model = served.model
        shape = [None, model.num_choices]

        @tf.function(
            input_signature=[
                text_spec("context"),
                text_spec("question"),
                tf.TensorSpec(shape, tf.string, "options"),
            ]
        )
        def choose(context: tf.Tensor, question: tf.Tensor, options: tf.Tensor) -> Tensors:
            context, question = (tf.ensure_shape(text, [None]) for text in (context, question))
            options = tf.unstack(tf.ensure_shape(options, shape), axis=1)  # C of [B]
            # Stacked, since that raises where the batch sizes differ: what follows would broadcast.
            context, question, *options = tf.unstack(tf.stack([context, question, *options]))
            rows = tf.repeat(tf.range(tf.size(context)), model.num_choices)  # [B·C]
            texts = question_with_option(
                tf.gather(question, rows), tf.reshape(tf.stack(options, axis=1), [-1])
            )
            spans = choice_spans(
                served.tokenizer(context),
                rows,
                served.tokenizer(texts),
                served.seq_length,
                served.input_format,
            )
            inputs = served.packed(spans.tokens, spans.starts, spans.lengths)  # [B·C, S]
            logits = served.outputs(
                {
                    name: tf.reshape(tensor, [-1, model.num_choices, tf.shape(tensor)[1]])
                    for name, tensor in inputs.items()
                }
            )["logits"]
            return {
                "choice": tf.argmax(logits, axis=1, output_type=tf.int32),
                "scores": tf.nn.softmax(tf.cast(logits, tf.float32)),
            }

        example = {
            "context": ["The water is warm."],
            "question": ["The water is _ ."],
            "options": [[f"warm {number}" for number in range(model.num_choices)]],
        }
        return {"choose": Signature(choose, example)}

    def read(self, value: Any, where: str) -> ChoiceRecord:
        """A dict of `context`, `question` and `options`."""
        options = value.get("options") if isinstance(value, Mapping) else None
        if isinstance(value, Mapping) and (isinstance(options, str) or not isinstance(options, Sequence)):
            raise InputError(f"{where}['options']={shown(options)} is not a list of texts")
        context, question = check_fields(value, ("context", "question"), where)
        texts = [check_text(option, f"{where}['options'][{n}]") for n, option in enumerate(options or ())]
        record = ChoiceRecord(where, where, "", context, question, tuple(texts), None)
        self._check_options(record)
        return record

    def request(self, records: Sequence[ChoiceRecord]) -> tuple[str, dict[str, Any]]:
        """Contexts, questions and options."""
        return "choose", {
            "context": [utf8(record.context) for record in records],
            "question": [utf8(record.question) for record in records],
            "options": [[utf8(option) for option in record.options] for record in records],
        }

    def answer(self, record: ChoiceRecord, outputs: Arrays, top_k: int | None) -> dict[str, Any]:
        """The number of the likeliest option, from 0."""
        choice = int(outputs["choice"])
        return {"label": choice, "score": float(outputs["scores"][choice])}


def _right_option(record: ChoiceRecord) -> int:
    if record.label is None:
        raise InputError(f"{record.where}: the question has no label: the right option is not known")
    return lookup({str(n): n for n in range(len(record.options))}, str(record.label), record.where)
