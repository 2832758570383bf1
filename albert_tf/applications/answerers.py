"""What answers for a pipeline: a model in memory, such as that of a run directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import origins
from albert_tf.applications.answers import FillPrediction
from albert_tf.applications.sources import PathLike
from albert_tf.checkpoints.models import task_of
from albert_tf.checkpoints.pairs import takes_pairs
from albert_tf.checkpoints.run import check_finite, load, read_task
from albert_tf.data.tasks.batches import task_batches
from albert_tf.data.tasks.encoding import joined
from albert_tf.data.tasks.records import TextRecord
from albert_tf.data.tasks.rows import TokenRows, tokenised
from albert_tf.errors import InputError
from albert_tf.features import ENCODER_INPUTS, ROWS, WORD_IDS
from albert_tf.finetuning.kinds import MULTIPLE_CHOICE, REGRESSION, TAGGING, Kind, classification, spans
from albert_tf.finetuning.recipes import QuestionSettings
from albert_tf.model.padding import skip_padding
from albert_tf.records import flat
from albert_tf.text import PieceTokenizer, Vocabulary
from albert_tf.text.masks import answer_table, tokens_with_masks
from albert_tf.text.vocabulary import ALBERT_IDS

# As in hub_export, of runs that do not say.
SEQ_LENGTH = 128


class Answerer(NamedTuple):
    """A model as what answers.

    Attributes:
      task: a key of READERS and FORMS.
      predict: from records, as many as the batch size or several times that, and the answers wanted of each
        (of those tasks that have several) to a prediction for each.
      labels: in the order of the scores, where there are any.
      takes_pairs: whether it is asked pairs of texts, or never is; None: either.
      most: answers of which `top_k` are wanted, where the model limits them.
      choices: of multiple choice, the options that a question has.
    """

    task: str
    predict: Callable[[Sequence[Any], int], Sequence[Any]]
    labels: Sequence[str] = ()
    takes_pairs: bool | None = None
    most: int | None = None
    choices: int | None = None


def run_answerer(run: PathLike, step: int | None, batch_size: int) -> Answerer:
    """The model of a run directory.

    Args:
      run: the directory.
      step: of the checkpoint; None: that which `load` takes.
      batch_size: examples at a time.
    Raises:
      InputError: the model has no head that answers, weights are non-finite, or a file is damaged.
      FileNotFoundError: there is no checkpoint or no vocabulary.
    """
    start, entries = origins.start_of_run(run), read_task(run)
    kind = entries["model"]
    if kind not in ("pretrainer", *_KINDS):
        raise InputError(
            f"{run} is of an {kind} without a head: it answers nothing; TextClassifier trains one"
        )
    model = load(run, step)
    check_finite(model, run, step)
    tokenizer = PieceTokenizer(Vocabulary.from_file(start.vocabulary), **start.tokenizer)
    return model_answerer(model, tokenizer, entries, batch_size)


def model_answerer(
    model: Any, tokenizer: PieceTokenizer, entries: Mapping[str, Any], batch_size: int
) -> Answerer:
    """A model in memory.

    Args:
      model: a pretrainer or another one with a head.
      tokenizer: text to token ids.
      entries: what task.json says of it, or would say.
      batch_size: examples at a time.
    """
    kind = task_of(model)["model"]
    defaults = {
        "seq_length": min(SEQ_LENGTH, model.config.max_position_embeddings),
        **flat(QuestionSettings()),
    }
    entries = {**defaults, **entries}
    if kind == "pretrainer":
        return Answerer("fill_mask", mask_filler(model, tokenizer, entries["seq_length"], batch_size))
    task, makes = _KINDS[kind](model)
    if task in ("classification", "tagging"):
        entries.setdefault("labels", [str(number) for number in range(model.num_labels)])
    predict = makes.predictor(model, entries, batch_size, None)

    def predictions(records: Sequence[Any], _: int) -> Sequence[Any]:
        if task == "tagging":
            records = [text.record for text in records]
        return predict(makes.encode(records, tokenizer, entries, False)).predictions

    return Answerer(
        task,
        predictions,
        labels=entries.get("labels", ()),
        takes_pairs=takes_pairs(entries),
        choices=entries.get("num_choices"),
    )


# Of each model in task.json but the pretrainer, what it answers, and how.
_KINDS: dict[str, Callable[[Any], tuple[str, Kind]]] = {
    "classifier": lambda model: (
        ("regression", REGRESSION) if model.num_labels == 1 else ("classification", classification())
    ),
    "token_classifier": lambda _: ("tagging", TAGGING),
    "span_labeler": lambda model: ("question_answering", spans(model.answerability)),
    "multiple_choice": lambda _: ("multiple_choice", MULTIPLE_CHOICE),
}


def mask_filler(
    model: Any, tokenizer: PieceTokenizer, seq_length: int, batch_size: int
) -> Callable[[Sequence[TextRecord], int], list[FillPrediction]]:
    """A function from texts and a number K to the K likeliest tokens for each mask in them.

    Args:
      model: a pretrainer.
      tokenizer: text to token ids.
      seq_length: longest input in tokens.
      batch_size: texts at a time.
    """
    answers, is_answer = answer_table(tokenizer.vocabulary, model.config.vocab_size)

    @tf.function(reduce_retracing=True)
    def best(batch: Mapping[str, tf.Tensor], top_k: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Of each mask its example [M], and ids and probabilities [M, K]."""
        places = tf.where(batch[WORD_IDS] == ALBERT_IDS.mask)  # [M, 2]
        inputs = skip_padding({name: batch[name] for name in ENCODER_INPUTS})
        states = tf.gather_nd(model.encoder(inputs, training=False)["sequence_output"], places)  # [M, H]
        positions = tf.range(tf.shape(states)[0])
        logits = model.mlm(
            states[tf.newaxis], positions[tf.newaxis], model.encoder.embeddings.word_embeddings
        )
        found = tf.math.top_k(tf.where(is_answer, tf.nn.softmax(logits[0]), 0), top_k)
        return tf.gather(batch[ROWS], places[:, 0]), found.indices, found.values

    def fill(records: Sequence[TextRecord], top_k: int) -> list[FillPrediction]:
        top_k = min(top_k, model.config.vocab_size)
        texts = tokenised(lambda text: tokens_with_masks(text, tokenizer), [r.text for r in records])
        tokens, starts = joined([texts])
        rows = TokenRows(tokens, np.stack(starts, axis=-1), texts.lengths[:, np.newaxis], {})
        size = min(batch_size, len(records))
        filled: list[FillPrediction] = [FillPrediction([], np.zeros([0, top_k], np.float32))] * len(records)
        for batch in task_batches(rows, seq_length, size, shuffle=False, repeat=False):
            numbers, ids, scores = (x.numpy() for x in best(batch, tf.constant(top_k)))
            for number in np.unique(numbers):
                of_text = numbers == number
                filled[number] = FillPrediction(answers[ids[of_text]].tolist(), scores[of_text])
        return filled

    return fill
