"""The text of a run: batches to train on, and batches to evaluate on."""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.data.dataset import NothingFound, pretraining_dataset
from albert_tf.data.documents import BY_HASH, BY_POSITION, HASHES, CorpusSplit
from albert_tf.data.sources import (
    DocumentSource,
    corpus_files,
    document_tokens,
    held_out_shards,
    open_documents,
    to_evaluate_on,
)
from albert_tf.errors import InputError
from albert_tf.recipes import ExampleSettings, PretrainingRecipe
from albert_tf.settings import flatten_record
from albert_tf.text.files import Paths, file_identities
from albert_tf.training.distribution import DistributedBatches, distribute_batches

# The same examples each time, whatever the run's seed, on every host.
_ONCE = {"seed": 0, "shuffle": False, "repeat": False}


class HeldOut(NamedTuple):
    """The part of its text that a run does not train on, from its first start to its end."""

    share: CorpusSplit
    what: str  # in words


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Text to train on and text to evaluate on, which never overlap.

    Args:
      train: inputs of `pretraining_dataset`.
      eval: inputs to evaluate on; None: what `prepare` has held out of `train` or, failing that, `held_out`.
      tokenizer: the vocabulary and the normalisation, as `pretraining_dataset` takes them.
      held_out: the part of `train` that is not trained on.
    """

    train: Sequence[str]
    eval: Sequence[str] | None
    tokenizer: Mapping[str, Any]
    held_out: HeldOut | None = None

    @functools.cached_property
    def evaluation(self) -> list[str]:
        """Inputs to evaluate on; empty where a part of `train` is held out."""
        return held_out_shards(self.train) if self.eval is None else to_evaluate_on(self.eval)

    def record(self) -> dict[str, Any]:
        """The entries of recipe.json; files are compared by their content, wherever they lie."""
        files = {
            f"{text}_files": file_identities(corpus_files(inputs)) if inputs else None
            for text, inputs in (("train", self.train), ("eval", self.evaluation))
        }
        return {
            **files,
            "train": list(self.train),
            "eval": None if self.eval is None else list(self.eval),
            "held_out": self.held_out and {**self.held_out.share._asdict(), "what": self.held_out.what},
        }

    def training_feed(
        self, recipe: PretrainingRecipe, seed: int, data_service: str | None = None
    ) -> DistributedBatches:
        """The batches to train on, without end, for the current strategy."""

        def batches(rows: int, part: tf.distribute.InputContext | None) -> tf.data.Dataset:
            options = {"seed": seed, "input_context": part, "data_service": data_service}
            share = self._trained_share
            return self._dataset(self.train, recipe.examples, batch_size=rows, share=share, **options)

        return distribute_batches(tf.distribute.get_strategy(), batches, recipe.batch_size)

    def training_tokens(self, most: int) -> Iterator[np.ndarray]:
        """The tokens of each document to train on, integer [T], in the order of the files, up to so many."""
        return document_tokens(self.train, **self.tokenizer, share=self._trained_share, most=most)

    def evaluation_batches(self, examples: ExampleSettings, batch_size: int) -> tf.data.Dataset:
        """The batches to evaluate on, the same ones each time; those of a held-out part stay in memory."""
        if self.evaluation:
            return self._dataset(self.evaluation, examples, batch_size=batch_size, **_ONCE)
        assert self.held_out is not None
        share = evaluated_share(self.held_out.share, self.train)
        return self._dataset(self.train, examples, batch_size=batch_size, share=share, cache=True, **_ONCE)

    def holding_out(self, examples: ExampleSettings, begun: Mapping[str, Any] | None) -> Corpus:
        """The corpus of a run, with a part held out where nothing else is there to evaluate on.

        Args:
          examples: which must come of what is held out, and of the rest.
          begun: recipe.json of a run that is there: what it has held out stays so. None: the run is new.
        """
        if begun is not None:
            return self._holding_out_as(begun)
        if self.evaluation:
            return self
        reason: NothingFound | None = None
        for share, what in held_out_shares(self.train, **self.tokenizer):
            try:
                for part in (share, share.rest):
                    self._dataset(self.train, examples, share=part, batch_size=1, **_ONCE)
                return dataclasses.replace(self, held_out=HeldOut(share, what))
            except NothingFound as error:
                reason = error
        raise InputError(
            f"no text to hold out of {' '.join(self.train)}, which is too short ({reason or 'it is empty'}): "
            "name other text by --eval"
        )

    def _holding_out_as(self, recipe: Mapping[str, Any]) -> Corpus:
        """The same with the part held out that recipe.json names."""
        before, recorded = recipe.get("eval"), recipe.get("held_out")
        if "held_out" not in recipe and before is None and not held_out_shards(self.train):  # an older run
            recorded = {"of": BY_HASH, "begin": 0.0, "end": 0.01, "what": "1% of the documents"}
        if recorded is not None:
            share = CorpusSplit(recorded["of"], recorded["begin"], recorded["end"])
            return dataclasses.replace(self, held_out=HeldOut(share, recorded["what"]))
        if not self.evaluation:
            raise InputError(
                "the run has been training on all of its text and evaluating on other text: name that again, "
                f"--eval {shlex.join(before or ['TEXT'])}, or another --output"
            )
        return self

    @property
    def _trained_share(self) -> CorpusSplit | None:
        """The part of `train` that is trained on; None: all of it."""
        return None if self.held_out is None else self.held_out.share.rest

    def _dataset(self, inputs: Sequence[str], examples: ExampleSettings, **options: Any) -> tf.data.Dataset:
        return pretraining_dataset(inputs, **flatten_record(examples), **self.tokenizer, **options)


# Text held out of a corpus, to be evaluated on and not trained on.

HELD_OUT_SHARE = 0.01
MAX_HELD_OUT_SHARE = 0.25  # of the text, where documents are so large that a hundredth cannot be had

# A corpus up to this is looked at as a whole to choose what of it is held out, which takes seconds. In bytes.
SMALL_CORPUS = 1 << 26

# Text that is evaluated on, in bytes: enough for the third digit of a loss, and little enough for the memory.
MAX_EVALUATED_BYTES = 1 << 24


def held_out_shares(
    inputs: Paths, vocabulary: str | os.PathLike, **normalisation: bool
) -> Iterator[tuple[CorpusSplit, str]]:
    """Shares of a corpus to hold out, the best first: a hundredth of the text, or as little as there is.

    Whole documents, those of the lowest hashes, while they are no more than MAX_HELD_OUT_SHARE of the text;
    then the end of each document. Of a corpus of more than SMALL_CORPUS bytes, a hundredth of the documents.

    Arguments and errors are those of `pretraining_dataset`; finished examples are refused.

    Returns:
      Shares, each with what it is in words; perhaps no example can be made of one.
    """
    source = open_documents(inputs, vocabulary, **normalisation)
    if _corpus_bytes(source.files) > SMALL_CORPUS:
        yield CorpusSplit(BY_HASH, 0.0, HELD_OUT_SHARE), f"{HELD_OUT_SHARE:.0%} of the documents"
        return
    hashes, sizes = _hashes_and_sizes(source)
    if len(hashes) == 0:
        return
    distinct, first = np.unique(hashes, return_index=True)
    documents = np.append(first[1:], len(hashes))  # up to and with each of the distinct hashes
    text = np.cumsum(sizes)[documents - 1] / np.sum(sizes)
    wanted = [HELD_OUT_SHARE * 2**n for n in range(6)]
    for last in dict.fromkeys(np.searchsorted(text, wanted).tolist()):
        if text[last] <= MAX_HELD_OUT_SHARE:
            what = f"{documents[last]:,} of {len(hashes):,} documents, {text[last]:.1%} of the text"
            yield CorpusSplit(BY_HASH, 0.0, (int(distinct[last]) + 1) / HASHES), what
    for size in wanted:
        yield CorpusSplit(BY_POSITION, 1 - size, 1.0), f"the last {size:.0%} of each document"


def evaluated_share(held_out: CorpusSplit, inputs: Paths) -> CorpusSplit:
    """The part of a corpus' held-out share to evaluate on: all of it, or about MAX_EVALUATED_BYTES bytes."""
    return held_out.at_most(MAX_EVALUATED_BYTES / max(_corpus_bytes(corpus_files(inputs)), 1))


def _corpus_bytes(files: Iterable[str]) -> int:
    """The bytes of files, as they are stored."""
    return sum(tf.io.gfile.stat(file).length for file in files)


def _hashes_and_sizes(source: DocumentSource) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each document, ascending, and its bytes."""
    documents = tf.data.Dataset.from_tensor_slices(source.files).flat_map(source.hashed)
    pairs = documents.map(lambda text, number: [number, tf.cast(tf.strings.length(text), tf.int64)])
    found = [np.stack(some, axis=1) for some in pairs.batch(1024).as_numpy_iterator()]
    hashes, sizes = np.concatenate([np.zeros([0, 2], np.int64), *found]).T
    order = np.argsort(hashes, kind="stable")
    return hashes[order], sizes[order]
