"""Records to tokenised examples: texts and pairs, multiple choice, tagged words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from albert_tf.data.tasks.records import (
    ChoiceRecord,
    TaggedRecord,
    TextRecord,
    label_ids,
    lookup,
    scores,
    tags_of,
)
from albert_tf.data.tasks.rows import Tokenised, TokenRows, check_length, splits_of, tokenised
from albert_tf.features import LABELS
from albert_tf.text.options import SHORTEST_CHOICE, choice_lengths, question_with_option
from albert_tf.text.vocabulary import ALBERT_IDS
from albert_tf.text.windows import Windows, word_windows

Tokenize = Callable[[tf.Tensor], tf.RaggedTensor]


def text_rows(
    records: Sequence[TextRecord],
    tokenize: Tokenize,
    labels: Sequence[str] | None,
    is_labelled: bool = True,
) -> TokenRows:
    """`[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]` of each record, trimmed when they are packed.

    Args:
      records: all with a second text, or all without.
      tokenize: string [B] → int32 [B, (tokens)].
      labels: in the order of the logits; None for regression.
      is_labelled: False leaves out the feature `labels`, int32 or for regression float32 [N].
    Raises:
      InputError: a record's label is missing or none of these.
    """
    segments = [tokenised(tokenize, [record.text for record in records])]
    if records[0].text_pair is not None:
        segments.append(tokenised(tokenize, [record.text_pair or "" for record in records]))
    features = {}
    if is_labelled and labels is None:
        features[LABELS] = np.array(scores(records), np.float32)
    elif is_labelled and labels is not None:
        features[LABELS] = np.array(label_ids(records, labels), np.int32)
    tokens, starts = joined(segments)
    lengths = np.stack([segment.lengths for segment in segments], axis=-1)  # [N, G]
    return TokenRows(tokens, np.stack(starts, axis=-1), lengths, features)


def joined(texts: Sequence[Tokenised]) -> tuple[np.ndarray, list[np.ndarray]]:
    """All tokens in one run, int32 [T], and where each text of each group begins in it, int64 [texts]."""
    bases = splits_of(np.array([len(group.tokens) for group in texts]))
    starts = [base + group.splits[:-1] for base, group in zip(bases, texts, strict=False)]
    return np.concatenate([group.tokens for group in texts]), starts


def choice_rows(
    records: Sequence[ChoiceRecord], tokenize: Tokenize, seq_length: int, is_labelled: bool = True
) -> TokenRows:
    """`[CLS] context [SEP] question + option [SEP]` for each option of each record.

    The context loses what does not fit, at its end; of a long question the last tokens stay.

    Args:
      records: with C options each.
      tokenize: string [B] → int32 [B, (tokens)].
      seq_length: longest sequence, S.
      is_labelled: False leaves out the feature `labels`, int32 [N].
    Raises:
      InputError: seq_length leaves no room, or a record lacks its label.
    Source: google-research/albert, race_utils.py.
    """
    check_length("seq_length", seq_length, SHORTEST_CHOICE)
    numbers = {text: n for n, text in enumerate(dict.fromkeys(record.context for record in records))}
    contexts = tokenised(tokenize, list(numbers))
    pairs = [(record.question, option) for record in records for option in record.options]
    questions = tokenised(lambda *texts: tokenize(question_with_option(*texts)), *zip(*pairs, strict=True))
    shape = len(records), len(records[0].options)
    of_record = np.array([numbers[record.context] for record in records])[:, np.newaxis]  # [N, 1]
    asked = questions.lengths.reshape(shape)  # [N, C]
    told, kept = (x.numpy() for x in choice_lengths(contexts.lengths[of_record], asked, seq_length))
    tokens, (context_starts, question_starts) = joined([contexts, questions])
    starts = [
        np.broadcast_to(context_starts[of_record], shape),
        question_starts.reshape(shape) + asked - kept,
    ]
    features = (
        {LABELS: np.array([_right_option(record) for record in records], np.int32)} if is_labelled else {}
    )
    dropped = (contexts.lengths[of_record] - told + asked - kept).sum(axis=1, dtype=np.int64)  # [N]
    lengths = np.stack([told, kept], axis=-1)  # [N, C, 2]
    return TokenRows(tokens, np.stack(starts, axis=-1), lengths, features, dropped=dropped)


def _right_option(record: ChoiceRecord) -> int:
    # The readers look at the label's value.
    return lookup({str(n): n for n in range(len(record.options))}, str(record.label), record.where)


@dataclasses.dataclass(frozen=True, eq=False)
class TaggedRows:
    """Sentences of words as tokenised examples; a long sentence is several of them, one after the other.

    Args:
      rows: the examples, with labels of tokens.
      words: where the first token of each word is among the tokens, int64 [words].
    """

    rows: TokenRows
    words: np.ndarray

    def of_words(self, values: np.ndarray) -> np.ndarray:
        """What was predicted for each word, of what was for each token of the examples.

        Args:
          values: [N, S] or longer, as packed: the first token of an example is at 1.
        Returns:
          [words], in the order of the records.
        """
        of_tokens = np.zeros(len(self.rows.tokens), values.dtype)
        for number, (start, length) in enumerate(
            zip(self.rows.starts[:, 0], self.rows.lengths[:, 0], strict=True)
        ):
            of_tokens[start : start + length] = values[number, 1 : 1 + length]
        return of_tokens[self.words]


def tagged_rows(
    records: Sequence[TaggedRecord],
    tokenize: Tokenize,
    seq_length: int,
    tags: Sequence[str],
    is_labelled: bool = True,
) -> TaggedRows:
    """`[CLS] sentence [SEP]`, tokenised word by word; the first token of a word has its label, others none.

    Sentences that are too long are cut before a word. A word of which normalisation leaves nothing is
    an unknown one.

    Args:
      records: sentences.
      tokenize: string [B] → int32 [B, (tokens)].
      seq_length: longest sequence, S.
      tags: in the order of the logits.
      is_labelled: False gives no word a label.
    Raises:
      InputError: seq_length leaves no room, or a tag is missing or none of these.
    """
    budget = check_length("seq_length", seq_length, 3) - 2
    found = tokenised(tokenize, [word for record in records for word in record.words])
    tokens = np.insert(found.tokens, found.splits[:-1][found.lengths == 0], ALBERT_IDS.unknown)
    splits = splits_of(np.maximum(found.lengths, 1))  # [words + 1]
    sentences = splits[splits_of(np.array([len(record.words) for record in records]))]  # [N + 1]
    windows = Windows(*(x.numpy() for x in word_windows(splits, sentences, budget)))
    starts = sentences[windows.rows] + windows.starts
    labels = np.full(len(tokens), -1, np.int32)
    if is_labelled:
        numbers = {tag: number for number, tag in enumerate(tags)}
        labels[splits[:-1]] = [lookup(numbers, tag, r.where) for r in records for tag in tags_of(r)]
    rows = TokenRows(tokens, starts[:, np.newaxis], windows.lengths[:, np.newaxis], {}, labels)
    return TaggedRows(rows, splits[:-1])
