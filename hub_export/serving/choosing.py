"""The signature of multiple choice: which option answers a question on a context."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.features import MASK, TYPE_IDS, WORD_IDS
from albert_tf.model.padding import skip_padding
from albert_tf.text.options import SHORTEST_CHOICE, choice_lengths, question_with_option
from albert_tf.text.packing import mask_and_type_ids, pack_spans
from hub_export.serving.signature import Served, Signature, Tensors, text_spec, without_padding


def choosing_signatures(served: Served) -> dict[str, Signature]:
    """`choose`: from `context`, `question` string [B] and `options` string [B, C] to the number of the best.

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
        inputs = choice_inputs(served, context, question, tf.stack(options, axis=1))
        length = tf.shape(inputs[MASK])[1]
        shape_of_rows = [-1, model.num_choices, length]
        inputs = {name: tf.reshape(tensor, shape_of_rows) for name, tensor in inputs.items()}  # [B, C, S]
        logits = model(skip_padding(inputs), training=False)["logits"]
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


def choice_inputs(
    served: Served, context: tf.Tensor, question: tf.Tensor, options: tf.Tensor
) -> dict[str, tf.Tensor]:
    """`[CLS] context [SEP] question + option [SEP]` of each option, string [B, C] to int32 [B·C, S]."""
    shape = tf.shape(options)
    rows = tf.repeat(tf.range(shape[0]), shape[1])  # [B·C]
    told = served.tokenizer(context)  # [B, (tokens)]
    asked = served.tokenizer(question_with_option(tf.gather(question, rows), tf.reshape(options, [-1])))
    lengths, asked_lengths = (tf.cast(texts.row_lengths(), tf.int32) for texts in (told, asked))
    starts, asked_starts = (tf.cast(texts.row_starts(), tf.int32) for texts in (told, asked))
    kept = choice_lengths(tf.gather(lengths, rows), asked_lengths, served.seq_length)  # two of [B·C]
    mask, type_ids = mask_and_type_ids(kept, served.seq_length)
    word_ids = pack_spans(
        tf.concat([told.values, asked.values], axis=0),
        [tf.gather(starts, rows), tf.size(told.values) + asked_starts + asked_lengths - kept[1]],
        kept,
        served.seq_length,
    )
    return without_padding({WORD_IDS: word_ids, MASK: mask, TYPE_IDS: type_ids})
