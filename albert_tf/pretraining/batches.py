"""The input pipelines of a run: text to train on, and text to evaluate on."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data import (
    NothingFound,
    Share,
    document_tokens,
    evaluated_share,
    held_out_shards,
    held_out_shares,
    pretraining_dataset,
    to_evaluate_on,
)
from albert_tf.data.shares import BY_HASH
from albert_tf.pretraining.settings import Pretraining
from albert_tf.training.strategies import Feed, feed
from albert_tf.utils.errors import InputError
from albert_tf.utils.records import flat

# The same examples each time, whatever the run's seed, on every host.
_ONCE = {"seed": 0, "shuffle": False, "repeat": False}


class HeldOut(NamedTuple):
    """The part of its text that a run does not train on, from its first start to its end."""

    share: Share
    what: str  # in words

    def record(self) -> dict[str, Any]:
        """The entry of recipe.json."""
        return {**self.share._asdict(), "what": self.what}


_OF_OLDER_RUNS = HeldOut(Share(BY_HASH, 0.0, 0.01), "1% of the documents")


def hold_out(settings: Pretraining, recipe: Mapping[str, Any]) -> HeldOut | None:
    """The part of its text that a run holds out, as is decided at its first start.

    Nothing where there is other text to evaluate on, given by `eval` or held out by `prepare`. A resumed run
    keeps what it has held out even if it is given other text now.

    Args:
      settings: the run's.
      recipe: recipe.json of the run; empty for a new one.
    Raises:
      ValueError: nothing is to be evaluated on: the text is too short to hold any of it out, or the run has
        been training on all of it.
    """
    if recipe:
        return _as_before(settings, recipe)
    if settings.eval is not None or held_out_shards(settings.train):
        return None
    reason: NothingFound | None = None
    for share, what in held_out_shares(settings.train, settings.vocabulary, **settings.tokenizer):
        try:
            for part in (share, share.rest):
                _dataset(settings, settings.train, share=part, batch_size=1, **_ONCE)
            return HeldOut(share, what)
        except NothingFound as error:
            reason = error
    raise InputError(
        f"no text to hold out of {' '.join(settings.train)}, which is too short ({reason or 'it is empty'}): "
        "name other text by --eval"
    )


def _as_before(settings: Pretraining, recipe: Mapping[str, Any]) -> HeldOut | None:
    """The part that a resumed run has held out from its first start; recipes of older runs do not say."""
    if "held_out" in recipe:
        recorded = recipe["held_out"]
    else:
        elsewhere = recipe.get("eval") is not None or held_out_shards(settings.train)
        recorded = None if elsewhere else _OF_OLDER_RUNS.record()
    if recorded is not None:
        return HeldOut(Share(recorded["of"], recorded["begin"], recorded["end"]), recorded["what"])
    if settings.eval is None and not held_out_shards(settings.train):
        raise InputError(
            f"{settings.output} has been training on all of its text and evaluating on other text: name that "
            f"again, --eval {shlex.join(recipe.get('eval') or ['TEXT'])}, or another --output"
        )
    return None


def training_feed(
    settings: Pretraining, strategy: tf.distribute.Strategy, seed: int, held_out: HeldOut | None
) -> Feed:
    """The batches to train on, without end; of nothing that is held out."""

    def batches(rows: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
        return _dataset(
            settings,
            settings.train,
            batch_size=rows,
            share=_trained_share(held_out),
            seed=seed,
            input_context=part,
            data_service=settings.execution.data_service,
        )

    return feed(strategy, batches, settings.recipe.batch_size)


def training_tokens(settings: Pretraining, held_out: HeldOut | None, most: int) -> Iterator[np.ndarray]:
    """The tokens of each document to train on, integer [T], in the order of the files, up to so many."""
    share = _trained_share(held_out)
    return document_tokens(settings.train, settings.vocabulary, **settings.tokenizer, share=share, most=most)


def held_out_batches(settings: Pretraining, held_out: HeldOut | None = None) -> tf.data.Dataset:
    """The batches to evaluate on: the same ones each time, whatever the run's seed, on every host.

    They are of the text given for it, or what `prepare` has held out, or of what the run holds out. That is
    looked for in the whole corpus the first time that they are read, and then stays in memory.

    Args:
      settings: the run's.
      held_out: what it holds out, as `hold_out` says.
    """
    size = settings.execution.rows_at_once(settings.recipe.batch_size)
    inputs = held_out_shards(settings.train) if settings.eval is None else to_evaluate_on(settings.eval)
    if inputs:
        return _dataset(settings, inputs, batch_size=size, **_ONCE)
    if held_out is None:
        raise InputError("there is nothing to evaluate on: name text for it by --eval")
    share = evaluated_share(held_out.share, settings.train)
    return _dataset(settings, settings.train, batch_size=size, share=share, cache=True, **_ONCE)


def _trained_share(held_out: HeldOut | None) -> Share | None:
    return None if held_out is None else held_out.share.rest


def _dataset(settings: Pretraining, inputs: Sequence[str], **arguments: Any) -> tf.data.Dataset:
    return pretraining_dataset(
        inputs,
        vocabulary=settings.vocabulary,
        **flat(settings.recipe.examples),
        **settings.tokenizer,
        **arguments,
    )
