"""Tagging: a tag for each word of a sentence."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.constants import SPACE_WORDS, WORDS, Tensors
from albert_tf.errors import InputError, check_choice
from albert_tf.models.compiled_encoder import in_blocks
from albert_tf.report import Report
from albert_tf.tasks.examples import (
    TaggedRecord,
    TextRecord,
    TokenizedTexts,
    characters,
    check_length,
    label_ids,
    tag_names,
    tags_of,
    tokenize_examples,
    tokenize_texts,
    utf8,
)
from albert_tf.tasks.losses import LABEL
from albert_tf.tasks.metrics import accuracy, entity_scores, entity_spans, find_scheme
from albert_tf.tasks.serving import Served, Signature, sign
from albert_tf.tasks.task import Arrays, Examples, FinetuningTask, Prediction, TaskConfig, to_length
from albert_tf.tasks.task_reports import tag_report
from albert_tf.text.offsets import rows_of
from albert_tf.text.packing import word_windows, words_of
from albert_tf.text.text_tokenizer import as_list, check_text, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer, Vocabulary

TaggedRecords = Sequence[TaggedRecord]


class WordsRecord(NamedTuple):
    """The words of a text that has no tags."""

    text: str
    words: tuple[str, ...]
    spans: np.ndarray  # first character of each word, and the one after its last, int64 [words, 2]


def split_texts(texts: Sequence[str], words: str) -> list[WordsRecord]:
    """Texts split as `words_of` does, "spaces" or "punctuation"."""
    with tf.device("CPU:0"):
        found = words_of(tf.constant([utf8(text) for text in texts], tf.string), words)
    rows = zip(texts, *(part.to_list() for part in found), strict=True)
    return [
        WordsRecord(text, tuple(word.decode() for word in of_text), characters(text, [starts, ends]).T)
        for text, of_text, starts, ends in rows
    ]


def join_sentence(words: Sequence[str]) -> WordsRecord:
    """Words as they are, of a text that has a space between two of them."""
    ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int64) - 1
    starts = ends - [len(word) for word in words]
    return WordsRecord(" ".join(words), tuple(words), np.stack([starts, ends], axis=1))


class WordSpans(NamedTuple):
    """`[CLS] sentence [SEP]`; a sentence that is too long is cut before a word into several windows."""

    spans: TokenizedTexts  # of W windows
    first_tokens: tf.Tensor  # first token of each word, int64 [words]
    places: tf.Tensor  # window and column of that token, int64 [words, 2]


def word_spans(
    pieces: tf.RaggedTensor, sentences: tf.Tensor, seq_length: int, vocabulary: Vocabulary
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
    spans = TokenizedTexts(tokens, starts[:, tf.newaxis], windows.lengths[:, tf.newaxis])
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


class Tagging(FinetuningTask):
    """Named entities and other tags of words."""

    name = "tagging"
    model = "token_classifier"
    signature = "tag"
    inputs = ("text",)
    metric_names = ("f1", "precision", "recall", "accuracy")
    losses = LABEL

    def __init__(self, config: TaskConfig):
        super().__init__(config)
        self.words: str = config.get("words", SPACE_WORDS)  # of plain text
        check_choice("words", self.words, WORDS)
        self.scheme = find_scheme(self.labels)

    @classmethod
    def model_config(cls, records: TaggedRecords) -> dict[str, Any]:
        """Tags of the records, "O" first."""
        labels = tag_names(records)
        return {"model": cls.model, "num_labels": len(labels), "labels": list(labels)}

    def encode(self, records: Sequence[Any], tokenizer: TextTokenizer, is_labelled: bool) -> Examples:
        """The first token of a word has its label, other tokens none. Plain texts are split into words."""
        if records and isinstance(records[0], TextRecord):
            records = split_texts([record.text for record in records], self.words)
        specials = tokenizer.vocabulary.input_format.num_special_tokens(1)
        check_length("seq_length", self.seq_length, specials + 1)
        # There may be no words, and a last one too many is cheap.
        words = [*(word for record in records for word in record.words), ""]
        pieces = tokenize_texts(lambda word: tokenizer.tokenize_shortened(word, self.seq_length), words)[:-1]
        sentences = np.cumsum([0, *(len(record.words) for record in records)])
        with tf.device("CPU:0"):
            sentences = tf.constant(sentences, tf.int64)
            spans, first_tokens, places = word_spans(pieces, sentences, self.seq_length, tokenizer.vocabulary)
        labels = np.full(spans.tokens.shape, -1, np.int32)
        if is_labelled:
            tags = ((tag, record.where) for record in records for tag in tags_of(record))
            labels[first_tokens.numpy()] = label_ids(tags, self.labels)
        rows = tokenize_examples(spans, tokenizer.vocabulary, {}, token_labels=labels)
        return Examples(records, rows, places.numpy())

    @staticmethod
    def decide(logits: tf.Tensor) -> dict[str, tf.Tensor]:
        """The likeliest tag of each token, `tags` int32 [B, S], and its probability, `scores`."""
        scores = tf.nn.softmax(tf.cast(logits, tf.float32))
        tags = tf.argmax(scores, axis=-1, output_type=tf.int32)
        return {"tags": tags, "scores": tf.reduce_max(scores, axis=-1)}

    def collect_outputs(self, outputs: Tensors, batch: Tensors) -> Tensors:
        """What `decide` says."""
        found = self.decide(outputs["logits"])
        return {name: to_length(values, self.seq_length) for name, values in found.items()}

    def predictions(self, examples: Examples, outputs: Arrays) -> list[Prediction]:
        """The likeliest tag of each word: that of its first token; of plain texts, entities."""
        names = np.array(self.labels, object)
        places = tuple(examples.places.T)  # windows and columns, [words] each
        tags, scores = names[outputs["tags"][places]], outputs["scores"][places]
        ends = np.cumsum([len(record.words) for record in examples.records])[:-1]
        sentences = zip(np.split(tags, ends), np.split(scores, ends), strict=True)
        predictions = [Prediction(tuple(found), probabilities) for found, probabilities in sentences]
        return [
            self._predict_entities(record, found) if isinstance(record, WordsRecord) else found
            for record, found in zip(examples.records, predictions, strict=True)
        ]

    def _predict_entities(self, record: WordsRecord, found: Prediction) -> Prediction:
        entities = self._entities(record.text, record.spans, found.value, found.scores)
        scores = np.array([entity["score"] for entity in entities])
        return Prediction(entities, scores, np.arange(len(entities)))

    def metrics(self, records: TaggedRecords, predictions: Sequence[Prediction]) -> dict[str, float]:
        """`f1`, `precision` and `recall` of entities, and the `accuracy` of words' tags."""
        right, predicted = [tags_of(record) for record in records], [found.value for found in predictions]
        of_words = ([tag for tags in sentences for tag in tags] for sentences in (right, predicted))
        return {**entity_scores(right, predicted, self.scheme), "accuracy": accuracy(*of_words)}

    def report(self, records: TaggedRecords, predictions: Sequence[Prediction]) -> Report:
        """`tag_report` of the sentences."""
        words, right = [record.words for record in records], [tags_of(record) for record in records]
        predicted, scores = ([getattr(found, name) for found in predictions] for name in ("value", "scores"))
        where = {"where": [record.where for record in records]}
        return tag_report(words, right, predicted, scores, where, self.scheme)

    def signatures(self, served: Served) -> dict[str, Signature]:
        """`tag`: from `text` string [B] of any length to a tag for each of its words; `tag_words` of `words`.

        Words stand between spaces; with "words": "punctuation" in task.json each punctuation mark is one by
        itself, too. Answers are `labels` string [B, T] and their probabilities `scores` float32 [B, T];
        `start` and `end` int32 [B, T], the first byte of the word and the one after its last. T is the
        largest number of words of a text: the rows of others end in empty labels and zeros.

        `tag_words` is from `words` string [B, T], as they are, to `labels` and `scores`; empty ones are none.
        """
        self.check_served(served)
        answer, example = functools.partial(self.answer, served), "Mrs. Alder kept bees ."
        return {
            "tag": sign(answer, {"text": [example]}),
            "tag_words": sign(answer, {"words": [example.split()]}, [None, None]),
        }

    def check_served(self, served: Served) -> None:
        """Refuses labels that are not as many as the model's."""
        served.label_names()

    def answer(
        self, served: Served, text: tf.Tensor | None = None, words: tf.Tensor | None = None
    ) -> Tensors:
        """The tags of texts, string [B], or of words, string [B, T]; see `signatures`."""
        if words is None:
            found = words_of(ensure_text_batch(text), self.words)
            tagged = self._word_tags(served, found.text)
            answers = {"labels": tagged[0], "scores": tagged[1], "start": found.starts, "end": found.ends}
            return {name: values.to_tensor() for name, values in answers.items()}
        words = tf.ensure_shape(words, [None, None])
        lengths = tf.where(words != "")  # rows and columns of words
        ragged = tf.RaggedTensor.from_value_rowids(
            tf.gather_nd(words, lengths), lengths[:, 0], tf.shape(words, tf.int64)[0], validate=False
        )
        shape = tf.shape(words, tf.int64)
        tagged = self._word_tags(served, ragged)
        return {
            name: tf.scatter_nd(lengths, values.values, shape)
            for name, values in zip(("labels", "scores"), tagged, strict=True)
        }

    def _word_tags(self, served: Served, words: tf.RaggedTensor) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Labels and probabilities of words, string [B, (words)]."""
        (pieces,), vocabulary = served.tokens(words.values), served.tokenizer.vocabulary
        spans, _, places = word_spans(pieces, words.row_splits, served.seq_length, vocabulary)
        dtypes = {"tags": tf.int32, "scores": tf.float32}
        found = in_blocks(lambda x: self.decide(served.logits(x)[0]), served.packed(spans), dtypes)  # [W, S]
        labels = tf.gather(tf.constant(served.label_names()), tf.gather_nd(found["tags"], places))
        return words.with_values(labels), words.with_values(tf.gather_nd(found["scores"], places))

    def parse_input(self, value: Any, where: str) -> TextRecord | WordsRecord:
        """A text, which is split into words, or a list of words, which stay as they are."""
        if not isinstance(value, list | tuple | np.ndarray):
            return TextRecord(where, 1, where, check_text(value, where), None, None)
        words = [check_text(word, f"{where}[{number}]") for number, word in enumerate(as_list(value))]
        if "" in words:
            raise InputError(f"{where}[{words.index('')}]='' is no word: leave it out")
        return join_sentence(words)

    def check(self, records: Sequence[TextRecord | WordsRecord]) -> None:
        """Refuses texts among lists of words."""
        if len({type(record) for record in records}) > 1:
            raise InputError("inputs hold both texts and lists of words: give them one after the other")

    def to_model_inputs(self, records: Sequence[Any]) -> tuple[str, dict[str, Any]]:
        """`tag` of texts, `tag_words` of words."""
        if isinstance(records[0], TextRecord):
            return super().to_model_inputs(records)
        width = max(1, *(len(record.words) for record in records))
        rows = [[utf8(word) for word in record.words] for record in records]
        return "tag_words", {"words": [row + [b""] * (width - len(row)) for row in rows]}

    def format_output(
        self, record: TextRecord | WordsRecord, outputs: Arrays, top_k: int | None
    ) -> list[dict[str, Any]]:
        """Entities: spans of words, with the mean of their scores."""
        if isinstance(record, TextRecord):
            count = np.count_nonzero(outputs["end"])
            spans = characters(record.text, [outputs["start"][:count], outputs["end"][:count]]).T
        else:
            spans = record.spans
        tags = [tag.decode() for tag in outputs["labels"][: len(spans)]]
        return self._entities(record.text, spans, tags, outputs["scores"])

    def _entities(
        self, text: str, spans: np.ndarray, tags: Sequence[str], scores: np.ndarray
    ) -> list[dict[str, Any]]:
        """The answer to a text, of the characters of its words, int64 [words, 2], their tags and scores."""
        entities = []
        for label, first, after in entity_spans(tags, self.scheme):
            start, end = int(spans[first, 0]), int(spans[after - 1, 1])
            score = float(np.mean(scores[first:after]))
            places = {"start": start, "end": end, "text": text[start:end]}
            entities.append({"label": label, "score": score, **places})
        return entities
