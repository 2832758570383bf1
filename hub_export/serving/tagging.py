"""The signature of taggers: a label for each word of a text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.features import MASK, TYPE_IDS, WORD_IDS
from albert_tf.model.padding import skip_padding
from albert_tf.text.offsets import rows_of
from albert_tf.text.packing import mask_and_type_ids, pack_spans
from albert_tf.text.vocabulary import ALBERT_IDS
from albert_tf.text.windows import word_windows
from albert_tf.text.words import words_of
from hub_export.serving.signature import Served, Signature, Tensors, in_blocks, text_spec, without_padding


def tagging_signatures(served: Served) -> dict[str, Signature]:
    """`tag`: from `text` string [B] of any length to a label for each of its words.

    Words are what stands between spaces, as in the columns that taggers learn from: where those have
    punctuation as words of its own, the text needs spaces around it. A word has the label of its first token,
    the only one that training looks at. Answers are `labels` string [B, T] and their probabilities `scores`
    float32 [B, T]; `start` and `end` int32 [B, T], the first byte of the word and the one behind its last.
    T is the most words of a text: the rows of others end in empty labels and zeros.
    """
    model, names = served.model, served.label_names()

    def likeliest(inputs: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
        """Label and probability of each token, [W, S] each."""
        logits = model(skip_padding(inputs), training=False)["logits"]
        scores = tf.nn.softmax(tf.cast(logits, tf.float32))
        return tf.argmax(scores, axis=-1, output_type=tf.int32), tf.reduce_max(scores, axis=-1)

    @tf.function(input_signature=[text_spec("text")])
    def tag(text: tf.Tensor) -> Tensors:
        words = words_of(tf.ensure_shape(text, [None]))
        tokens, splits = word_tokens(served.tokenizer(words.text.values))
        texts = tf.gather(splits, words.text.row_splits)  # [B + 1]
        windows = word_windows(splits, texts, served.seq_length - 2)
        starts = tf.gather(texts, windows.rows) + tf.cast(windows.starts, tf.int64)  # [W]
        mask, type_ids = mask_and_type_ids([windows.lengths], served.seq_length)
        word_ids = pack_spans(tokens, [tf.cast(starts, tf.int32)], [windows.lengths], served.seq_length)
        inputs = without_padding({WORD_IDS: word_ids, MASK: mask, TYPE_IDS: type_ids})
        labels, scores = in_blocks(likeliest, inputs, (tf.int32, tf.float32))  # [W, S]
        # Each word's first token: its window is the last one that begins at or before it.
        window = tf.searchsorted(starts, splits[:-1], side="right") - 1  # [words]
        column = tf.cast(splits[:-1] - tf.gather(starts, window), tf.int32) + 1
        places = tf.stack([window, column], axis=1)  # [words, 2]
        answers = {
            "labels": tf.gather(tf.constant(names), tf.gather_nd(labels, places)),
            "scores": tf.gather_nd(scores, places),
        }
        answers = {name: words.text.with_values(values) for name, values in answers.items()}
        dense = answers | {"start": words.starts, "end": words.ends}
        return {name: ragged.to_tensor() for name, ragged in dense.items()}

    return {"tag": Signature(tag, {"text": ["Mrs. Alder kept bees ."]})}


def word_tokens(pieces: tf.RaggedTensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The tokens of words, of which a word of nothing that can be seen has one, too: an unknown one.

    Args:
      pieces: int32 [words, (tokens)].
    Returns:
      int32 [tokens], and where each word begins and the last one ends, int64 [words + 1].
    """
    splits = tf.concat([[0], tf.cumsum(tf.maximum(pieces.row_lengths(), 1))], axis=0)  # [words + 1]
    word = rows_of(splits)  # [tokens]
    place = tf.range(splits[-1]) - tf.gather(splits, word) + tf.gather(pieces.row_splits, word)
    is_unknown = tf.gather(pieces.row_lengths() == 0, word)
    # An unknown one may stand behind the last piece.
    tokens = tf.gather(tf.concat([pieces.values, [ALBERT_IDS.unknown]], axis=0), place)
    return tf.where(is_unknown, ALBERT_IDS.unknown, tokens), splits
