"""Tagging: a tag for each word of a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.models.compiled import in_blocks
from albert_tf.reports.content import Report
from albert_tf.tasks.examples.records import TaggedRecord, TextRecord, label_ids, tag_names, tags_of
from albert_tf.tasks.examples.rows import Spans, characters, check_length, token_rows, tokenised
from albert_tf.tasks.kind import Arrays, Examples, FinetunedKind, Prediction, Tensors, to_length
from albert_tf.tasks.losses import LABEL
from albert_tf.tasks.metrics.labels import accuracy, entity_scores, entity_spans
from albert_tf.tasks.metrics.tag_report import tag_report
from albert_tf.tasks.serving import Served, Signature, text_spec
from albert_tf.tokenizers.given import check_text
from albert_tf.tokenizers.kinds import TextTokenizer, TokenIds
from albert_tf.tokenizers.offsets import rows_of
from albert_tf.tokenizers.windows import word_windows, words_of

TaggedRecords = Sequence[TaggedRecord]


class WordSpans(NamedTuple):
    """`[CLS] sentence [SEP]`; a sentence that is too long is cut before a word into several windows."""

    spans: Spans  # of W windows
    first_tokens: tf.Tensor  # first token of each word, int64 [words]
    places: tf.Tensor  # window and column of that token, int64 [words, 2]


def word_spans(
    pieces: tf.RaggedTensor, sentences: tf.Tensor, seq_length: int, vocabulary: TokenIds
) -> WordSpans:
    """The inputs of sentences.

    Words have tokens int32 [words, (tokens)]; the first word of each sentence, and the number of words, are
    int64 [N + 1].
    """
    input_format = vocabulary.input_format
    tokens, splits = word_tokens(pieces, vocabulary.special_ids.unknown)
    budget = seq_length - input_format.num_special_tokens(1)
    windows = word_windows(splits, tf.gather(splits, sentences), budget)
    starts = tf.gather(tf.gather(splits, sentences), windows.rows) + tf.cast(windows.starts, tf.int64)  # [W]
    # A word's window is the last one that begins at or before its first token.
    window = tf.searchsorted(starts, splits[:-1], side="right", out_type=tf.int64) - 1  # [words]
    column = splits[:-1] - tf.gather(starts, window) + len(input_format.start)
    spans = Spans(tokens, starts[:, tf.newaxis], windows.lengths[:, tf.newaxis])
    return WordSpans(spans, splits[:-1], tf.stack([window, column], axis=1))


def word_tokens(pieces: tf.RaggedTensor, unknown_id: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Tokens of words, int32 [words, (tokens)]; a word of nothing that can be seen has an unknown one.

    Returns:
      int32 [tokens], and where each word begins and the last one ends, int64 [words + 1].
    """
    lengths = tf.cast(pieces.row_lengths(), tf.int64)
    splits = tf.concat([[0], tf.cumsum(tf.maximum(lengths, 1))], axis=0)  # [words + 1]
    word = rows_of(splits)  # [tokens]
    row_splits = tf.cast(pieces.row_splits, tf.int64)
    place = tf.range(splits[-1]) - tf.gather(splits, word) + tf.gather(row_splits, word)
    is_unknown = tf.gather(lengths == 0, word)
    # An unknown one may stand after the last piece.
    tokens = tf.gather(tf.concat([pieces.values, [unknown_id]], axis=0), place)
    return tf.where(is_unknown, unknown_id, tokens), splits


class Tagging(FinetunedKind):
    """Named entities and other tags of words."""

    name = "tagging"
    model = "token_classifier"
    signature = "tag"
    inputs = ("text",)
    metric_names = ("f1", "precision", "recall", "accuracy")
    losses = LABEL

    @classmethod
    def model_config(cls, records: TaggedRecords) -> dict[str, Any]:
        """Tags of the records, "O" first."""
        labels = tag_names(records)
        return {"model": cls.model, "num_labels": len(labels), "labels": list(labels)}

    def encode(self, records: TaggedRecords, tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """The first token of a word has its label, other tokens none."""
        specials = tokenizer.vocabulary.input_format.num_special_tokens(1)
        check_length("seq_length", self.seq_length, specials + 1)
        pieces = tokenised(
            lambda word: tokenizer(tokenizer.shorten_text(word, self.seq_length)),
            [word for record in records for word in record.words],
        )
        sentences = np.cumsum([0, *(len(record.words) for record in records)])
        with tf.device("CPU:0"):
            sentences = tf.constant(sentences, tf.int64)
            spans, first_tokens, places = word_spans(pieces, sentences, self.seq_length, tokenizer.vocabulary)
        labels = np.full(spans.tokens.shape, -1, np.int32)
        if is_labelled:
            tags = ((tag, record.where) for record in records for tag in tags_of(record))
            labels[first_tokens.numpy()] = label_ids(tags, self.labels)
        rows = token_rows(spans, tokenizer.vocabulary, {}, token_labels=labels)
        return Examples(records, rows, places.numpy())

    def keep(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """The likeliest tag of each token and its probability, [B, S] each."""
        tags, scores = _likeliest(outputs["logits"])
        length = self.seq_length
        return {"tags": to_length(tags, length), "scores": to_length(scores, length)}

    def decode(self, examples: Examples, outputs: Arrays) -> list[Prediction]:
        """The likeliest tag of each word: that of its first token."""
        names = np.array(self.labels, object)
        places = tuple(examples.places.T)  # windows and columns, [words] each
        tags, scores = names[outputs["tags"][places]], outputs["scores"][places]
        ends = np.cumsum([len(record.words) for record in examples.records])[:-1]
        sentences = zip(np.split(tags, ends), np.split(scores, ends), strict=True)
        return [Prediction(tuple(found), probabilities) for found, probabilities in sentences]

    @classmethod
    def metrics(cls, records: TaggedRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`f1`, `precision` and `recall` of entities, and the `accuracy` of words' tags."""
        right, predicted = [tags_of(record) for record in records], [found.value for found in predictions]
        of_words = ([tag for tags in sentences for tag in tags] for sentences in (right, predicted))
        return {**entity_scores(right, predicted), "accuracy": accuracy(*of_words)}

    def report(self, records: TaggedRecords, predictions: Sequence[Prediction]) -> Report:
        """`tag_report` of the sentences."""
        words, right = [record.words for record in records], [tags_of(record) for record in records]
        predicted, scores = ([getattr(found, name) for found in predictions] for name in ("value", "scores"))
        return tag_report(words, right, predicted, scores, {"where": [record.where for record in records]})

    def signatures(self, served: Served) -> dict[str, Signature]:
        """`tag`: from `text` string [B] of any length to a tag for each of its words.

        Words are what stands between spaces, as in the columns that taggers learn from. Answers are `labels`
        string [B, T] and their probabilities `scores` float32 [B, T]; `start` and `end` int32 [B, T], the
        first byte of the word and the one after its last. T is the largest number of words of a text: the
        rows of others end in empty labels and zeros.
        """
        names = served.label_names()

        def likeliest(inputs: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
            return _likeliest(served.outputs(inputs)["logits"])

        @tf.function(input_signature=[text_spec("text")])
        def tag(text: tf.Tensor) -> Tensors:
            words = words_of(tf.ensure_shape(text, [None]))
            (pieces,) = served.tokens(words.text.values)
            vocabulary = served.tokenizer.vocabulary
            spans, _, places = word_spans(pieces, words.text.row_splits, served.seq_length, vocabulary)
            tags, scores = in_blocks(likeliest, served.packed(spans), (tf.int32, tf.float32))  # [W, S]
            labels = tf.gather(tf.constant(names), tf.gather_nd(tags, places))  # [words]
            answers = {
                "labels": words.text.with_values(labels),
                "scores": words.text.with_values(tf.gather_nd(scores, places)),
                "start": words.starts,
                "end": words.ends,
            }
            return {name: values.to_tensor() for name, values in answers.items()}

        return {"tag": Signature(tag, {"text": ["Mrs. Alder kept bees ."]})}

    def read(self, value: Any, where: str) -> TextRecord:
        """A text, whose words stand between spaces."""
        return TextRecord(where, 1, where, check_text(value, where), None, None)

    def answer(self, record: TextRecord, outputs: Arrays, top_k: int | None) -> list[dict[str, Any]]:
        """Entities: spans of words, with the mean of their scores."""
        count = np.count_nonzero(outputs["end"])
        # All at once: each call reads the whole text.
        starts, ends = (characters(record.text, *outputs[name][:count].tolist()) for name in ("start", "end"))
        entities = []
        for label, first, after in entity_spans([tag.decode() for tag in outputs["labels"][:count]]):
            start, end = starts[first], ends[after - 1]
            score = float(np.mean(outputs["scores"][first:after]))
            text = record.text[start:end]
            entities.append({"label": label, "score": score, "start": start, "end": end, "text": text})
        return entities


def _likeliest(logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Tag int32 and probability float32 of each token, [B, S] each."""
    scores = tf.nn.softmax(tf.cast(logits, tf.float32))  # [B, S, K]
    return tf.argmax(scores, axis=-1, output_type=tf.int32), tf.reduce_max(scores, axis=-1)
