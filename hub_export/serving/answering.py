"""The signature of span labelers: where in a context of any length the answer to a question is."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
import tf_keras as keras

from albert_tf.errors import InputError
from albert_tf.features import MASK, TYPE_IDS, WORD_IDS
from albert_tf.model.padding import skip_padding
from albert_tf.model.spans import (
    Candidates,
    best_answers,
    best_context,
    context_tokens,
    labeler_candidates,
    possible,
)
from albert_tf.text.packing import mask_and_type_ids, pack_spans
from albert_tf.text.windows import DOC_STRIDE, LONGEST_QUERY, sliding_windows
from hub_export.serving.signature import Served, Signature, Tensors, in_blocks, text_spec, without_padding

CANDIDATE_TYPES = Candidates(tf.int32, tf.int32, tf.float32, tf.float32)


class Settings(NamedTuple):
    """How contexts are read and which answers count; task.json has them under these names.

    Attributes:
      doc_stride: tokens from one window to the next.
      max_query_length: tokens of a question, of which the first ones stay.
      max_answer_length: in tokens.
      n_best: starts and ends of a window that answers are put together from, and the answers among which one
        has its probability.
    """

    doc_stride: int = DOC_STRIDE
    max_query_length: int = LONGEST_QUERY
    max_answer_length: int = 30
    n_best: int = 20


class QuestionWindows(NamedTuple):
    """The windows of a batch of questions, those of one question after the other.

    Attributes:
      inputs: of the encoder, int32 [W, S] each.
      rows: whose window each is, int32 [W].
      first_tokens: tokens of the context before those of the window, int32 [W].
      token_starts: the first byte in the context of each token, int64 [W, S]; of other tokens anything.
      token_ends: the byte behind it.
    """

    inputs: dict[str, tf.Tensor]
    rows: tf.Tensor
    first_tokens: tf.Tensor
    token_starts: tf.Tensor
    token_ends: tf.Tensor


def answering_signatures(served: Served) -> dict[str, Signature]:
    """`answer`: from `question` and `context` string [B], of any length, to the best span of the context.

    It answers `answer` string [B], its probability among the n best, `score` float32 [B], `start` and `end`
    int32 [B], its first byte in the context and the one behind its last; and with answerability
    `no_answer_score` float32 [B], above 0 where the model says that there is no answer. Where no span
    counts, the answer is empty.
    """
    model, settings = served.model, _settings(served)

    def candidates(inputs: Tensors) -> tuple[Candidates, tf.Tensor]:
        """Of windows, and how much each speaks for no answer, [W]."""
        outputs = model(skip_padding(inputs), training=False)
        none = outputs.get("no_answer_logits", tf.zeros_like(inputs[MASK][:, 0], tf.float32))
        found = labeler_candidates(outputs, inputs[MASK], settings.n_best)
        return found, tf.cast(none, tf.float32)

    @tf.function(input_signature=[text_spec("question"), text_spec("context")])
    def answer(question: tf.Tensor, context: tf.Tensor) -> Tensors:
        texts = [tf.ensure_shape(text, [None]) for text in (question, context)]
        # Stacked, since that raises where the batch sizes differ: what follows would go on.
        question, context = tf.unstack(tf.stack(texts))
        windows = question_windows(served, settings, question, context)
        found, none = in_blocks(candidates, windows.inputs, (CANDIDATE_TYPES, tf.float32))
        answers = best_of_each(windows, found, context, settings)
        if model.answerability:
            answers["no_answer_score"] = tf.math.unsorted_segment_min(none, windows.rows, tf.size(question))
        return answers

    example = {"question": ["How is the water?"], "context": ["The water is warm, and the sea is cold."]}
    return {"answer": Signature(answer, example)}


def best_of_each(
    windows: QuestionWindows, candidates: Candidates, context: tf.Tensor, settings: Settings
) -> dict[str, tf.Tensor]:
    """The best answer to each question, of the candidates of all windows and the contexts, string [B]."""
    in_context = context_tokens(windows.inputs[MASK], windows.inputs[TYPE_IDS])
    is_best = best_context(in_context, windows.first_tokens, windows.rows)
    counts = possible(candidates, in_context, is_best, settings.max_answer_length)

    def best(row: tf.Tensor) -> dict[str, tf.Tensor]:
        of_row = windows.rows == row  # [W]
        found = best_answers(
            Candidates(*(tf.boolean_mask(values, of_row) for values in candidates)),
            tf.boolean_mask(counts, of_row),
            tf.boolean_mask(windows.token_starts, of_row),
            tf.boolean_mask(windows.token_ends, of_row),
            context[row],
            settings.n_best,
        )
        score = tf.cast(found.probability[0], tf.float32)
        return {"answer": found.text[0], "score": score, "start": found.start[0], "end": found.end[0]}

    types = {"answer": tf.string, "score": tf.float32, "start": tf.int32, "end": tf.int32}
    return tf.map_fn(best, tf.range(tf.size(context)), fn_output_signature=types)


def _settings(served: Served) -> Settings:
    """Those of the run; a ValueError where one of them is impossible."""
    given = {name: served.task[name] for name in Settings._fields if name in served.task}
    settings = Settings(**given)
    for name, value in settings._asdict().items():
        if not isinstance(value, int) or value < 1:
            raise InputError(f"task.json: {name}={value!r} must be a whole number of at least 1")
    served.check_length(max(settings.max_query_length + 4, _shortest(served.model)))
    return settings


def _shortest(model: keras.Model) -> int:
    """Tokens that an input of the model needs, whatever they are."""
    return max(model.start_n_top, model.end_n_top) if model.answerability else 1


def question_windows(
    served: Served, settings: Settings, question: tf.Tensor, context: tf.Tensor
) -> QuestionWindows:
    """`[CLS] question [SEP] window of the context [SEP]` of each window, of string [B] each."""
    asked = served.tokenizer(question)  # [B, (tokens)]
    told, starts, limits = served.tokenizer.tokenize_with_offsets(context)
    asked_lengths = tf.minimum(tf.cast(asked.row_lengths(), tf.int32), settings.max_query_length)  # [B]
    told_lengths = tf.cast(told.row_lengths(), tf.int32)
    windows = sliding_windows(told_lengths, served.seq_length - 3 - asked_lengths, settings.doc_stride)
    lengths = [tf.gather(asked_lengths, windows.rows), windows.lengths]  # [W] each
    asked_starts, told_starts = (tf.cast(texts.row_starts(), tf.int32) for texts in (asked, told))
    first = tf.gather(told_starts, windows.rows) + windows.starts  # [W], among all contexts' tokens
    word_ids = pack_spans(
        tf.concat([asked.values, told.values], axis=0),
        [tf.gather(asked_starts, windows.rows), tf.size(asked.values) + first],
        lengths,
        served.seq_length,
    )
    mask, type_ids = mask_and_type_ids(lengths, served.seq_length)
    inputs = without_padding({WORD_IDS: word_ids, MASK: mask, TYPE_IDS: type_ids}, _shortest(served.model))
    columns = tf.range(tf.shape(inputs[MASK])[1])  # [S]
    tokens = (first - lengths[0] - 2)[:, tf.newaxis] + columns  # [W, S]
    tokens = tf.clip_by_value(tokens, 0, tf.size(told.values))
    places = (tf.gather(tf.concat([values.values, [0]], axis=0), tokens) for values in (starts, limits))
    return QuestionWindows(inputs, windows.rows, windows.starts, *places)
