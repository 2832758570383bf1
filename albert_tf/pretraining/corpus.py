"""The text of a run: batches to train on, and batches to evaluate on."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.data import (
    NothingFound,
    Share,
    document_tokens,
    evaluated_share,
    held_out_shards,
    held_out_shares,
    pretraining_dataset,
)
from albert_tf.data.shares import BY_HASH
from albert_tf.pretraining.settings import Pretraining
from albert_tf.recipes import ExampleSettings, PretrainingRecipe
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


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Text to train on and text to evaluate on, which never overlap.

    Args:
      train: inputs of `pretraining_dataset`.
      evaluation: inputs to evaluate on; none: the part of `train` that is held out.
      tokenizer: the vocabulary and the normalisation, as `pretraining_dataset` takes them.
      held_out: the part of `train` that is not trained on.
    """

    train: Sequence[str]
    evaluation: Sequence[str]
    tokenizer: Mapping[str, Any]
    held_out: HeldOut | None = None

    @property
    def trained_share(self) -> Share | None:
        """The part of `train` that is trained on; None: all of it."""
        return None if self.held_out is None else self.held_out.share.rest

    @functools.cached_property
    def _evaluated_share(self) -> Share:
        if self.held_out is None:
            raise InputError("there is nothing to evaluate on: name text for it by --eval")
        return evaluated_share(self.held_out.share, self.train)

    def training_feed(self, recipe: PretrainingRecipe, seed: int, data_service: str | None = None) -> Feed:
        """The batches to train on, without end, for the current strategy."""

        def batches(rows: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
            return self._dataset(
                self.train,
                recipe.examples,
                batch_size=rows,
                share=self.trained_share,
                seed=seed,
                input_context=part,
                data_service=data_service,
            )

        return feed(tf.distribute.get_strategy(), batches, recipe.batch_size)

    def training_tokens(self, most: int) -> Iterator[np.ndarray]:
        """The tokens of each document to train on, integer [T], in the order of the files, up to so many."""
        return document_tokens(self.train, **self.tokenizer, share=self.trained_share, most=most)

    def evaluation_batches(self, examples: ExampleSettings, batch_size: int) -> tf.data.Dataset:
        """The batches to evaluate on: the same ones each time, whatever the run's seed, on every host.

        The part that is held out is looked for in the whole corpus the first time, and then stays in memory.
        """
        if self.evaluation:
            return self._dataset(self.evaluation, examples, batch_size=batch_size, **_ONCE)
        share = self._evaluated_share
        return self._dataset(self.train, examples, batch_size=batch_size, share=share, cache=True, **_ONCE)

    def held_out_of(self, examples: ExampleSettings) -> HeldOut:
        """The first part that leaves examples on both sides; ValueError if the text is too short for any."""
        reason: NothingFound | None = None
        for share, what in held_out_shares(self.train, **self.tokenizer):
            try:
                for part in (share, share.rest):
                    self._dataset(self.train, examples, share=part, batch_size=1, **_ONCE)
                return HeldOut(share, what)
            except NothingFound as error:
                reason = error
        raise InputError(
            f"no text to hold out of {' '.join(self.train)}, which is too short ({reason or 'it is empty'}): "
            "name other text by --eval"
        )

    def _dataset(self, inputs: Sequence[str], examples: ExampleSettings, **options: Any) -> tf.data.Dataset:
        return pretraining_dataset(inputs, **flat(examples), **self.tokenizer, **options)


def corpus_of(settings: Pretraining, run: RunDirectory) -> Corpus:
    """The text of a run, of which it holds out a part where there is none to evaluate on.

    That is decided at its first start: a resumed run keeps what it has held out even if it is given other
    text now.

    Raises:
      ValueError: there is nothing to evaluate on: the text is too short to hold any of it out, or the run has
        been training on all of it.
    """
    tokenizer = {"vocabulary": settings.vocabulary, **settings.tokenizer}
    corpus = Corpus(settings.train, settings.eval_inputs, tokenizer)
    if run.recipe:
        held_out = _as_before(run, corpus)
    else:
        held_out = None if corpus.evaluation else corpus.held_out_of(settings.recipe.examples)
    return dataclasses.replace(corpus, held_out=held_out)


def _as_before(run: RunDirectory, corpus: Corpus) -> HeldOut | None:
    """The part that a resumed run has held out from its first start; recipes of older runs do not say."""
    before = run.recipe.get("eval")
    if "held_out" in run.recipe:
        recorded = run.recipe["held_out"]
    else:
        is_elsewhere = before is not None or held_out_shards(corpus.train)
        recorded = None if is_elsewhere else _OF_OLDER_RUNS.record()
    if recorded is not None:
        return HeldOut(Share(recorded["of"], recorded["begin"], recorded["end"]), recorded["what"])
    if not corpus.evaluation:
        raise InputError(
            f"{run} has been training on all of its text and evaluating on other text: name that again, "
            f"--eval {shlex.join(before or ['TEXT'])}, or another --output"
        )
    return None
