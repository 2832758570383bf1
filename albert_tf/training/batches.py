"""What a run trains and evaluates on: its settings as input pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.data import held_out_shards, pretraining_dataset, to_evaluate_on
from albert_tf.errors import InputError
from albert_tf.training.settings import Pretraining
from albert_tf.training.strategies import Feed, feed

# Of the documents, by their hash, where no others are given to evaluate on.
HELD_OUT_SHARE = 0.01


def training_feed(settings: Pretraining, strategy: tf.distribute.Strategy, seed: int) -> Feed:
    """The batches to train on, without end."""
    is_held_out = settings.eval is not None or held_out_shards(settings.train)
    hash_range = None if is_held_out else (HELD_OUT_SHARE, 1.0)

    def batches(rows: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
        return _dataset(
            settings,
            settings.train,
            batch_size=rows,
            hash_range=hash_range,
            seed=seed,
            input_context=part,
            data_service=settings.data_service,
        )

    return feed(strategy, batches, settings.recipe.batch_size)


def held_out_batches(settings: Pretraining) -> tf.data.Dataset:
    """The batches to evaluate on: the same ones each time, whatever the run's seed, on every host.

    They are of the text given for it, or what `prepare` has held out, or a share of the text to train on.
    """
    once = {"seed": 0, "shuffle": False, "repeat": False, "batch_size": settings.evaluated_at_once}
    held_out = held_out_shards(settings.train) if settings.eval is None else to_evaluate_on(settings.eval)
    if held_out:
        return _dataset(settings, held_out, hash_range=None, **once)
    try:
        return _dataset(settings, settings.train, hash_range=(0.0, HELD_OUT_SHARE), **once)
    except InputError as error:
        raise InputError(
            f"of the training documents {HELD_OUT_SHARE:.0%} is held out, and that is not possible here "
            f"({error}): name other text by --eval"
        ) from error


def _dataset(settings: Pretraining, inputs: Sequence[str], **arguments: Any) -> tf.data.Dataset:
    recipe = settings.recipe
    return pretraining_dataset(
        inputs,
        vocabulary=settings.vocabulary,
        seq_length=recipe.seq_length,
        max_predictions=recipe.max_predictions,
        sentence_objective=recipe.sentence_objective,
        short_seq_prob=recipe.short_seq_prob,
        masked_lm_prob=recipe.masked_lm_prob,
        max_ngram=recipe.max_ngram,
        whole_word=recipe.whole_word,
        **settings.tokenizer,
        **arguments,
    )


def seed_of(seed: int, step: int) -> int:
    """The seed of the batches from a step on, where no iterator can be restored; at step 0 the run's."""
    return seed if step == 0 else int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) >> 1
