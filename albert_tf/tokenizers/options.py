"""A question and one of the options to answer it with as one text, with core TensorFlow ops alone."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.tokenizers.input_format import ALBERT_FORMAT, InputFormat
from albert_tf.tokenizers.offsets import rows_of

BLANK = "_"

# Tokens of a question with an option, of which the last ones stay.
# Source: google-research/albert, run_race.py.
LONGEST_QUESTION = 128

SHORTEST_CHOICE = ALBERT_FORMAT.num_special_tokens(2) + 2


def question_with_option(question: tf.Tensor, option: tf.Tensor) -> tf.Tensor:
    """The question with the option in its blanks, or after it if it has none: string [B].

    A blank is one `_` or several without anything between.
    Note: google-research/albert puts the option into each `_` of a row of them.
    Source: google-research/albert, race_utils.py.
    """
    parts = tf.strings.split(tf.strings.regex_replace(question, f"{BLANK}+", BLANK), BLANK)  # [B, (parts)]
    rows = rows_of(parts.row_splits)  # [parts]
    is_first = tf.range(tf.size(rows, tf.int64), dtype=tf.int64) == tf.gather(parts.row_splits, rows)
    filled = tf.where(is_first, parts.flat_values, tf.gather(option, rows) + parts.flat_values)
    texts = tf.strings.unsorted_segment_join(filled, rows, tf.size(question))
    return tf.where(parts.row_lengths() > 1, texts, question + " " + option)


def choice_lengths(
    context: tf.Tensor, question: tf.Tensor, seq_length: int, input_format: InputFormat = ALBERT_FORMAT
) -> tuple[tf.Tensor, tf.Tensor]:
    """The number of tokens to keep: the first of a context, the last of a question with an option.

    Both are int32 of shapes that go together; seq_length is at least SHORTEST_CHOICE.
    Source: google-research/albert, race_utils.py.
    """
    budget = seq_length - input_format.num_special_tokens(2)
    kept = tf.minimum(question, min(LONGEST_QUESTION, budget))
    return tf.minimum(context, budget - kept), kept
