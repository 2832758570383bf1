"""Tokens to inputs: trims segments, packs them between special tokens, and cuts long texts into windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.constants import INPUT_MASK, PUNCTUATION_WORDS, SPACE_WORDS, TYPE_IDS, WORD_IDS
from albert_tf.errors import InputError, check_whole, shorten
from albert_tf.text.offsets import END, cut_where, match_codes, row_edges, rows_of
from albert_tf.text.text_tokenizer import ALBERT_FORMAT, InputFormat, trace_once


def trim_lengths(a: tf.Tensor, b: tf.Tensor, budget: tf.Tensor | int) -> tuple[tf.Tensor, tf.Tensor]:
    """The lengths of two segments, int32 [B], after trimming them to a common budget.

    Lengths that fit are unchanged. Otherwise tokens are removed from the longer segment until the sum is the
    budget; of an odd budget the first segment gets the odd token. A negative budget counts as 0.
    """
    budget = tf.maximum(budget, 0)
    kept_a = tf.minimum(a, tf.maximum(budget - budget // 2, budget - b))
    return kept_a, tf.minimum(b, budget - kept_a)


def pack_spans(
    tokens: tf.Tensor,
    starts: Sequence[tf.Tensor],
    lengths: Sequence[tf.Tensor],
    seq_length: tf.Tensor | int,
    input_format: InputFormat,
) -> dict[str, tf.Tensor]:
    """The encoder's inputs, int32 [B, S] each, from segments that are spans of one long run of tokens.

    Args:
      tokens: all tokens, int32 [T].
      starts: the first position of each segment in `tokens`, int32 [B] for each of the segments.
      lengths: the number of tokens of each segment, int32 [B] for each; they fit with the special tokens.
      seq_length: length of the inputs, S.
      input_format: the special tokens.
    """
    columns, begins, ends = _columns(lengths, seq_length, input_format)
    # Columns outside of segments read this padding token. It also keeps the gather off an empty tensor.
    tokens = tf.concat([tokens, [input_format.padding]], axis=0)  # [T + 1]
    source = tf.fill([tf.size(starts[0]), seq_length], tf.size(tokens) - 1)  # [B, S]
    for start, begin, end in zip(starts, begins, ends, strict=True):
        inside = (columns >= begin) & (columns < end)
        source = tf.where(inside, start[:, tf.newaxis] + columns - begin, source)
    word_ids = tf.gather(tokens, source)
    insertions = [(0, input_format.start), (ends[-1], input_format.end)]
    insertions += [(end, input_format.between) for end in ends[:-1]]
    for begin, special_ids in insertions:
        for place, special in enumerate(special_ids):
            word_ids = tf.where(columns == begin + place, special, word_ids)
    mask, type_ids = mask_and_type_ids(lengths, seq_length, input_format)
    return {WORD_IDS: word_ids, INPUT_MASK: mask, TYPE_IDS: type_ids}


def segment_numbers(
    lengths: Sequence[tf.Tensor], seq_length: tf.Tensor | int, input_format: InputFormat
) -> tf.Tensor:
    """The segment of each token of packed rows, int32 [B, S], from the segments' lengths, int32 [B] each.

    It is 1 for tokens of the first segment, 2 for the second, 0 for special tokens and padding.
    """
    columns, begins, ends = _columns(lengths, seq_length, input_format)
    inside = [(columns >= begin) & (columns < end) for begin, end in zip(begins, ends, strict=True)]
    return tf.add_n([tf.where(mask, number, 0) for number, mask in enumerate(inside, start=1)])


def mask_and_type_ids(
    lengths: Sequence[tf.Tensor], seq_length: tf.Tensor | int, input_format: InputFormat
) -> tuple[tf.Tensor, tf.Tensor]:
    """The input_mask and input_type_ids of packed rows, int32 [B, S] each. See `pack_spans` for arguments."""
    columns, begins, ends = _columns(lengths, seq_length, input_format)
    mask = tf.cast(columns < ends[-1] + len(input_format.end), tf.int32)
    if len(lengths) == 1 or not input_format.has_type_ids:
        return mask, tf.zeros_like(mask)
    return mask, tf.cast(columns >= begins[1], tf.int32) * mask


def _columns(
    lengths: Sequence[tf.Tensor], seq_length: tf.Tensor | int, input_format: InputFormat
) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
    """The column numbers, int32 [1, S], and the begins and ends of the segments, int32 [B, 1] each."""
    bounds = input_format.bounds([length[:, tf.newaxis] for length in lengths])
    return tf.range(seq_length)[tf.newaxis], *bounds


def pack(
    segments: Sequence[tf.RaggedTensor], seq_length: tf.Tensor | int, input_format: Any = ALBERT_FORMAT
) -> dict[str, tf.Tensor]:
    """Builds the inputs of the encoder from one or two tokenised segments.

    Segments that are too long lose tokens at their ends. The input then has exactly `seq_length` tokens, and
    both segments are about equally long.

    Args:
      segments: a list of one or two RaggedTensors, int32 [B, (tokens)] or [B, (words), (tokens)], without
        special tokens.
      seq_length: length of the inputs with special tokens, S; an int or an int32 scalar.
      input_format: the tokenizer whose special tokens are used, or its `input_format`. Default: ALBERT's ids,
        `[CLS]` 2 and `[SEP]` 3, which published BERT and RoBERTa vocabularies do not have.
    Returns:
      A dict of `input_word_ids`, `input_mask` and `input_type_ids`, int32 [B, S] each.
    Raises:
      InputError: segments are something else, or `seq_length` has no room for the special tokens.
      tf.errors.InvalidArgumentError: the batch sizes of the segments differ and are known only when the graph
        runs.
    Source: TF Hub's common text API, `bert_pack_inputs`.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> tokens = tf.ragged.constant([[5, 6], [7]])
      >>> albert_tf.pack([tokens], seq_length=5)["input_word_ids"].numpy().tolist()
      [[2, 5, 6, 3, 0], [2, 7, 3, 0, 0]]
    """
    input_format = getattr(input_format, "input_format", input_format)
    _check_segments(segments)
    specials = input_format.num_special_tokens(len(segments))
    if not tf.is_tensor(seq_length):
        seq_length = check_whole("seq_length", seq_length, specials)
    splits = [_token_splits(segment) for segment in segments]  # [B + 1] each
    flat = [segment.flat_values for segment in segments]
    starts = [split[:-1] for split in splits]
    # Stacking raises an error if the batch sizes differ; the lines below would broadcast.
    first, *second = tf.unstack(tf.stack([split[1:] - split[:-1] for split in splits]))
    lengths = trim_lengths(first, second[0] if second else 0, seq_length - specials)[: len(segments)]
    if second:
        starts[1] += tf.size(flat[0])
    return pack_spans(tf.concat(flat, axis=0), starts, lengths, seq_length, input_format)


def _check_segments(segments: Any) -> None:
    is_list = isinstance(segments, list | tuple) and len(segments) in (1, 2)
    # Checked by attributes, which Keras' symbolic ragged tensors have, too.
    if not (is_list and all(hasattr(x, "row_splits") and x.dtype.is_integer for x in segments)):
        needed = "RaggedTensors of token ids, as a Tokenizer or tf.ragged.constant makes them"
        raise InputError(f"segments={shorten(segments)} must be a list of one or two {needed}")


def _token_splits(segment: tf.RaggedTensor) -> tf.Tensor:
    """Row splits of the flat tokens, for any ragged rank: int32 [B + 1]."""
    splits = segment.row_splits
    while isinstance(segment.values, tf.RaggedTensor):
        segment = segment.values
        splits = tf.gather(segment.row_splits, splits)
    return tf.cast(splits, tf.int32)


# The code points that Python's `str.isspace` calls spaces; readers of column files split there.
SPACES = [code for code in range(0x3001) if chr(code).isspace()]

# BERT's punctuation marks, ASCII's and Unicode's (category P), as a class of a regular expression.
PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"


class Words(NamedTuple):
    """The words of a batch of texts."""

    text: tf.RaggedTensor  # string [B, (words)]
    starts: tf.RaggedTensor  # int32 [B, (words)], the first byte of each word in its text
    ends: tf.RaggedTensor  # int32 [B, (words)], the byte after its last one


@trace_once
def split_words(text: tf.Tensor, words: str = SPACE_WORDS) -> Words:
    """The words of each text. Bytes that are not UTF-8 belong to a word.

    Args:
      text: the texts, string [B].
      words: "spaces": words end at spaces; "punctuation": each punctuation mark is a word by itself, too.
    Source: google-research/bert, `_run_split_on_punc` in tokenization.py.
    """

    def opens_word(codes: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        opens = row_edges(2 * rows + _is_space(codes))[0]
        if words != PUNCTUATION_WORDS:
            return opens
        is_mark = match_codes(codes, PUNCTUATION)
        is_after = tf.concat([[False], is_mark], axis=0)[:-1]
        return opens | is_mark | is_after

    # END is a space, so each text ends with a part that is no word.
    parts = cut_where(text + END, opens_word)
    is_word = _is_space(parts.codes) == 0  # [P]
    ends = tf.concat([parts.starts[1:], parts.starts[:1]], axis=0)  # a part follows every word
    texts = tf.RaggedTensor.from_value_rowids(
        tf.boolean_mask(parts.text, is_word),
        tf.cast(tf.boolean_mask(parts.rows, is_word), tf.int64),
        nrows=tf.size(text, tf.int64),
        validate=False,
    )
    places = (tf.cast(tf.boolean_mask(values, is_word), tf.int32) for values in (parts.starts, ends))
    return Words(texts, *(texts.with_values(values) for values in places))


def _is_space(codes: tf.Tensor) -> tf.Tensor:
    """1 for code points of spaces, 0 for others, int32."""
    return tf.cast(tf.reduce_any(codes[:, tf.newaxis] == SPACES, axis=1), tf.int32)


class Windows(NamedTuple):
    """The windows of a batch of documents, in the order of the documents."""

    rows: tf.Tensor  # int32 [W], the document of each window
    numbers: tf.Tensor  # int32 [W], the number of the window in its document, from 0
    starts: tf.Tensor  # int32 [W], the first token of the window in its document
    lengths: tf.Tensor  # int32 [W], the window's number of tokens; 0 for an empty document's only window


def sliding_windows(lengths: tf.Tensor, budgets: tf.Tensor, stride: tf.Tensor | int) -> Windows:
    """Windows that together cover all tokens of each document.

    All windows of a document but the last are full. An empty document has one empty window.

    Args:
      lengths: the number of tokens of each document, int32 [N].
      budgets: the most tokens of a window of each document, at least 1, int32 [N].
      stride: tokens from the start of one window to the next, at least 1; a larger stride than the budget
        counts as the budget.
    Source: google-research/albert, `convert_examples_to_features` in squad_utils.py.
    """
    steps = tf.minimum(budgets, stride)  # [N]
    further = tf.maximum(lengths - budgets + steps - 1, 0) // steps  # [N]
    splits = tf.concat([[0], tf.cumsum(further + 1)], axis=0)  # [N + 1]
    rows = rows_of(tf.cast(splits, tf.int64))  # [W]
    numbers = tf.range(tf.size(rows)) - tf.gather(splits, rows)  # [W]
    starts = numbers * tf.gather(steps, rows)
    sizes = tf.minimum(tf.gather(budgets, rows), tf.gather(lengths, rows) - starts)
    return Windows(rows, numbers, starts, sizes)


def word_windows(words: tf.Tensor, texts: tf.Tensor, budget: int) -> Windows:
    """Cuts texts into windows that do not overlap, each as long as fits and cut before a word.

    Args:
      words: the position of each word's first token among the tokens of all texts, and the end of the last
        word, ascending, int64 [words + 1].
      texts: the same positions for the texts, int64 [N + 1].
      budget: the most tokens of a window, at least 1. A word with more tokens is cut.
    """
    words, texts = tf.convert_to_tensor(words), tf.convert_to_tensor(texts)
    begins, ends = texts[:-1], texts[1:]  # [N] each

    def is_unfinished(number: tf.Tensor, starts: tf.Tensor, windows: tf.TensorArray) -> tf.Tensor:
        return tf.reduce_any(starts < ends) | (number == 0)  # a text without tokens has a window, too

    def write_window(number: tf.Tensor, starts: tf.Tensor, windows: tf.TensorArray) -> tuple[Any, ...]:
        windows = windows.write(number, tf.cast(starts - begins, tf.int32))
        return number + 1, _window_ends(words, starts, ends, budget), windows

    windows = tf.TensorArray(tf.int32, 0, dynamic_size=True, element_shape=begins.shape)
    *_, windows = tf.while_loop(is_unfinished, write_window, (tf.constant(0), begins, windows))
    starts = tf.transpose(windows.stack())  # in their texts, [N, most windows]
    lengths = tf.cast(ends - begins, tf.int32)[:, tf.newaxis]  # of texts, [N, 1]
    is_window = (starts < lengths) | (tf.range(tf.shape(starts)[1]) == 0)
    rows, numbers = tf.unstack(tf.cast(tf.where(is_window), tf.int32), axis=1)  # [W] each
    starts = tf.boolean_mask(starts, is_window)  # [W]
    window_starts = tf.gather(begins, rows) + tf.cast(starts, begins.dtype)  # among all tokens, [W]
    window_ends = _window_ends(words, window_starts, tf.gather(ends, rows), budget)
    return Windows(rows, numbers, starts, tf.cast(window_ends - window_starts, tf.int32))


def _window_ends(words: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor, budget: int) -> tf.Tensor:
    """The ends of windows that start at `starts` in texts that end at `ends`, int64 [W] each."""
    word = tf.gather(words, tf.searchsorted(words, starts + budget, side="right") - 1)
    return tf.where(ends - starts <= budget, ends, tf.where(word > starts, word, starts + budget))
