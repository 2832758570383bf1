"""Tagging: predicts a tag for each word of a sentence, and entities."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import SPACE_WORDS, WORDS_CHOICES, Tensors
from albert_tf.errors import InputError, check_choice, check_whole
from albert_tf.models.compiled_encoder import map_blocks
from albert_tf.report import Report
from albert_tf.tasks.examples import (
    TaggedRecord,
    TextRecord,
    TokenizedTexts,
    character_offsets,
    examples_from_spans,
    label_ids,
    tag_names,
    tags_of,
    tokenize_texts,
    utf8,
)
from albert_tf.tasks.losses import LABEL
from albert_tf.tasks.metrics import accuracy, entity_scores, entity_spans, find_scheme
from albert_tf.tasks.serving import ServingModel, Signature, create_signature
from albert_tf.tasks.task import Arrays, Examples, FinetuningTask, Prediction, TaskEntries, to_length
from albert_tf.tasks.task_reports import tag_report
from albert_tf.text.offsets import rows_of
from albert_tf.text.packing import split_words, word_windows
from albert_tf.text.text_tokenizer import as_list, check_text, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer, Vocabulary

TaggedRecords = Sequence[TaggedRecord]


class WordsRecord(NamedTuple):
    """The words of a text that has no tags."""

    text: str
    words: tuple[str, ...]
    spans: np.ndarray  # character offsets where each word starts and ends, int64 [words, 2]


def split_texts(texts: Sequence[str], words: str) -> list[WordsRecord]:
    """Splits texts into words at "spaces" or also at "punctuation"; see `split_words`."""
    with tf.device("CPU:0"):
        split = split_words(tf.constant([utf8(text) for text in texts], tf.string), words)
    rows = zip(texts, *(part.to_list() for part in split), strict=True)
    return [
        WordsRecord(text, tuple(word.decode() for word in row), character_offsets(text, [starts, ends]).T)
        for text, row, starts, ends in rows
    ]


def join_sentence(words: Sequence[str]) -> WordsRecord:
    """Joins words with single spaces to a text, and keeps the words unchanged."""
    ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int64) - 1
    starts = ends - [len(word) for word in words]
    return WordsRecord(" ".join(words), tuple(words), np.stack([starts, ends], axis=1))


class WordSpans(NamedTuple):
    """W windows `[CLS] part of a sentence [SEP]`; a long sentence is cut between words."""

    spans: TokenizedTexts  # of the windows
    first_tokens: tf.Tensor  # index of the first token of each word, int64 [words]
    places: tf.Tensor  # window and column of that token, int64 [words, 2]


def word_spans(
    pieces: tf.RaggedTensor, sentences: tf.Tensor, seq_length: int, vocabulary: Vocabulary
) -> WordSpans:
    """Splits sentences into windows.

    Args:
      pieces: tokens of all words, int32 [words, (tokens)].
      sentences: index of the first word of each sentence, and the number of words, int64 [N + 1].
      seq_length: longest input of the model, in tokens.
      vocabulary: vocabulary of the tokens.
    """
    input_format = vocabulary.input_format
    tokens, splits = word_tokens(pieces, vocabulary.special_ids.unknown)
    budget = seq_length - input_format.num_special_tokens(1)
    windows = word_windows(splits, tf.gather(splits, sentences), budget)
    starts = tf.gather(tf.gather(splits, sentences), windows.rows) + tf.cast(windows.starts, tf.int64)  # [W]
    # A word's window is the last one that begins at or before its first token.
    window = tf.searchsorted(starts, splits[:-1], side="right", out_type=tf.int64) - 1  # [words]
    column = splits[:-1] - tf.gather(starts, window) + len(input_format.start)
    spans = TokenizedTexts(tokens, starts[:, tf.newaxis], windows.lengths[:, tf.newaxis])
    return WordSpans(spans, splits[:-1], tf.stack([window, column], axis=1))


def word_tokens(pieces: tf.RaggedTensor, unknown_id: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Concatenates the tokens of words, int32 [words, (tokens)]; a word without tokens gets an unknown one.

    Returns:
      The tokens, int32 [tokens], and the row splits of the words, int64 [words + 1].
    """
    lengths = tf.cast(pieces.row_lengths(), tf.int64)
    splits = tf.concat([[0], tf.cumsum(tf.maximum(lengths, 1))], axis=0)  # [words + 1]
    word = rows_of(splits)  # [tokens]
    row_splits = tf.cast(pieces.row_splits, tf.int64)
    place = tf.range(splits[-1]) - tf.gather(splits, word) + tf.gather(row_splits, word)
    is_unknown = tf.gather(lengths == 0, word)
    # The index of an unknown token after the last piece would be out of range.
    tokens = tf.gather(tf.concat([pieces.values, [unknown_id]], axis=0), place)
    return tf.where(is_unknown, unknown_id, tokens), splits


class Tagging(FinetuningTask):
    """Named entities and other tags of words."""

    name = "tagging"
    model_kind = "token_classifier"
    signature = "tag"
    inputs = ("text",)
    supported_settings = frozenset({"class_weight", "label_smoothing", "words"})
    metric_names = ("f1", "precision", "recall", "accuracy")
    losses = LABEL

    def __init__(self, entries: TaskEntries):
        super().__init__(entries)
        self.words: str = entries.get("words", SPACE_WORDS)  # how plain texts are split
        check_choice("words", self.words, WORDS_CHOICES)
        self.scheme = find_scheme(self.labels)

    @classmethod
    def model_config(cls, records: TaggedRecords) -> dict[str, Any]:
        """Entries of task.json; the labels are the tags of the records, "O" first."""
        labels = tag_names(records)
        return {"model": cls.model_kind, "num_labels": len(labels), "labels": list(labels)}

    def encode(self, records: Sequence[Any], tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """Rows of windows; the first token of a word has its label. Plain texts are split into words."""
        if records and isinstance(records[0], TextRecord):
            records = split_texts([record.text for record in records], self.words)
        specials = tokenizer.vocabulary.input_format.num_special_tokens(1)
        check_whole("seq_length", self.seq_length, specials + 1)
        # There may be no words: an empty one is added and its tokens dropped.
        words = [*(word for record in records for word in record.words), ""]
        pieces = tokenize_texts(
            lambda word: tokenizer.tokenize_shortened(tokenizer.prepend_space(word), self.seq_length), words
        )[:-1]
        sentences = np.cumsum([0, *(len(record.words) for record in records)])
        with tf.device("CPU:0"):
            sentences = tf.constant(sentences, tf.int64)
            spans, first_tokens, places = word_spans(pieces, sentences, self.seq_length, tokenizer.vocabulary)
        labels = np.full(spans.tokens.shape, -1, np.int32)
        if is_labelled:
            tags = ((tag, record.where) for record in records for tag in tags_of(record))
            labels[first_tokens.numpy()] = label_ids(tags, self.labels)
        rows = examples_from_spans(spans, tokenizer.vocabulary, {}, token_labels=labels)
        return Examples(records, rows, places.numpy())

    @staticmethod
    def decide(logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """The likeliest tag of each token, `tags` int32 [B, S], and its probability, `scores`."""
        scores = tf.nn.softmax(tf.cast(logits, tf.float32))
        tags = tf.argmax(scores, axis=-1, output_type=tf.int32)
        return {"tags": tags, "scores": tf.reduce_max(scores, axis=-1)}

    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """The tags and scores of `decide`, padded to the longest sequence."""
        tags_and_scores = self.decide(outputs["logits"])
        return {name: to_length(values, self.seq_length) for name, values in tags_and_scores.items()}

    def predictions(self, examples: Examples, outputs: Arrays) -> list[Prediction]:
        """The likeliest tag of each word, by its first token; for plain texts the entities."""
        names = np.array(self.labels, object)
        places = tuple(examples.layout.T)  # windows and columns, [words] each
        tags, scores = names[outputs["tags"][places]], outputs["scores"][places]
        ends = np.cumsum([len(record.words) for record in examples.records])[:-1]
        sentences = zip(np.split(tags, ends), np.split(scores, ends), strict=True)
        predictions = [Prediction(tuple(row), probabilities) for row, probabilities in sentences]
        return [
            self._predict_entities(record, prediction) if isinstance(record, WordsRecord) else prediction
            for record, prediction in zip(examples.records, predictions, strict=True)
        ]

    def _predict_entities(self, record: WordsRecord, prediction: Prediction) -> Prediction:
        entities = self._format_entities(record.text, record.spans, prediction.value, prediction.scores)
        scores = np.array([entity["score"] for entity in entities])
        return Prediction(entities, scores, np.arange(len(entities)))

    def metrics(self, records: TaggedRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`f1`, `precision` and `recall` of entities, and the `accuracy` of words' tags."""
        y_true, y_pred = [tags_of(record) for record in records], [p.value for p in predictions]
        word_tags = ([tag for tags in sentences for tag in tags] for sentences in (y_true, y_pred))
        return {**entity_scores(y_true, y_pred, self.scheme), "accuracy": accuracy(*word_tags)}

    def report(self, records: TaggedRecords, predictions: Sequence[Prediction]) -> Report:
        """`tag_report` of the sentences."""
        words, y_true = [record.words for record in records], [tags_of(record) for record in records]
        y_pred, scores = ([getattr(p, name) for p in predictions] for name in ("value", "scores"))
        where = {"where": [record.where for record in records]}
        return tag_report(words, y_true, y_pred, scores, where, self.scheme)

    def signatures(self, served: ServingModel) -> dict[str, Signature]:
        """The signatures `tag` of texts and `tag_words` of words.

        `tag` takes `text` string [B] of any length, and splits it into words at spaces; with "words":
        "punctuation" in task.json each punctuation mark is a word, too. It returns `labels` string [B, T],
        their probabilities `scores` float32 [B, T], and `start` and `end` int32 [B, T], the offsets of the
        first byte of each word and after its last byte. T is the largest number of words of a text; the rows
        of other texts end in empty labels and zeros.

        `tag_words` takes `words` string [B, T] unchanged; empty words fill up rows. It returns `labels` and
        `scores`.
        """
        self.check_model(served)
        answer, example = functools.partial(self.answer, served), "Mrs. Alder kept bees ."
        return {
            "tag": create_signature(answer, {"text": [example]}),
            "tag_words": create_signature(answer, {"words": [example.split()]}, [None, None]),
        }

    def check_model(self, served: ServingModel) -> None:
        """Raises an InputError if the number of labels is not the model's."""
        served.label_names()

    def answer(
        self, served: ServingModel, text: tf.Tensor | None = None, words: tf.Tensor | None = None
    ) -> Tensors:
        """The tags of texts, string [B], or of words, string [B, T]; see `signatures`."""
        if words is None:
            split = split_words(ensure_text_batch(text), self.words)
            labels, scores = self._tag_words(served, split.text)
            answers = {"labels": labels, "scores": scores, "start": split.starts, "end": split.ends}
            return {name: values.to_tensor() for name, values in answers.items()}
        words = tf.ensure_shape(words, [None, None])
        shape = tf.shape(words, tf.int64)
        places = tf.where(words != "")  # row and column of each word
        ragged = tf.RaggedTensor.from_value_rowids(
            tf.gather_nd(words, places), places[:, 0], shape[0], validate=False
        )
        labels, scores = self._tag_words(served, ragged)
        return {
            "labels": tf.scatter_nd(places, labels.values, shape),
            "scores": tf.scatter_nd(places, scores.values, shape),
        }

    def _tag_words(
        self, served: ServingModel, words: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """The labels and probabilities of words, string [B, (words)]."""
        (pieces,) = served.tokenize(served.tokenizer.prepend_space(words.values))
        vocabulary = served.tokenizer.vocabulary
        spans, _, places = word_spans(pieces, words.row_splits, served.seq_length, vocabulary)
        dtypes = {"tags": tf.int32, "scores": tf.float32}
        outputs = map_blocks(
            lambda x: self.decide(served.logits(x)[0]), served.pack_spans(spans), dtypes
        )  # [W, S]
        labels = tf.gather(tf.constant(served.label_names()), tf.gather_nd(outputs["tags"], places))
        return words.with_values(labels), words.with_values(tf.gather_nd(outputs["scores"], places))

    def parse_input(self, value: Any, where: str) -> TextRecord | WordsRecord:
        """Checks a text, or a list of words."""
        if not isinstance(value, list | tuple | np.ndarray):
            return TextRecord(where, 1, where, check_text(value, where), None, None)
        words = [check_text(word, f"{where}[{number}]") for number, word in enumerate(as_list(value))]
        if "" in words:
            raise InputError(f"{where}[{words.index('')}]='' is no word: leave it out")
        return join_sentence(words)

    def check_records(self, records: Sequence[TextRecord | WordsRecord]) -> None:
        """Raises an InputError if there are both texts and lists of words."""
        if len({type(record) for record in records}) > 1:
            raise InputError("inputs hold both texts and lists of words: give them one after the other")

    def to_model_inputs(self, records: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        """The signature `tag` with texts, or `tag_words` with words."""
        if isinstance(records[0], TextRecord):
            return super().to_model_inputs(records)
        width = max(1, *(len(record.words) for record in records))
        rows = [[utf8(word) for word in record.words] for record in records]
        return "tag_words", {"words": [row + [b""] * (width - len(row)) for row in rows]}

    def format_output(
        self, record: TextRecord | WordsRecord, outputs: Arrays, top_k: int | None
    ) -> list[dict[str, Any]]:
        """The entities of a text: spans of words, with the mean of the words' scores."""
        if isinstance(record, TextRecord):
            count = np.count_nonzero(outputs["end"])
            spans = character_offsets(record.text, [outputs["start"][:count], outputs["end"][:count]]).T
        else:
            spans = record.spans
        tags = [tag.decode() for tag in outputs["labels"][: len(spans)]]
        return self._format_entities(record.text, spans, tags, outputs["scores"])

    def _format_entities(
        self, text: str, spans: np.ndarray, tags: Sequence[str], scores: np.ndarray
    ) -> list[dict[str, Any]]:
        """The entities of a text. `spans` are character offsets of its words, int64 [words, 2]."""
        entities = []
        for label, first, last in entity_spans(tags, self.scheme):
            start, end = int(spans[first, 0]), int(spans[last - 1, 1])
            score = float(np.mean(scores[first:last]))
            places = {"start": start, "end": end, "text": text[start:end]}
            entities.append({"label": label, "score": score, **places})
        return entities
