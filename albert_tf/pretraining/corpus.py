"""The text of a run: batches for training and for evaluation, and the choice of held-out text."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.constants import MLM_WEIGHTS
from albert_tf.data.dataset import NoExamplesError, pretraining_dataset
from albert_tf.data.documents import BY_HASH, BY_POSITION, HASH_BUCKETS, CorpusSplit
from albert_tf.data.sources import (
    DocumentSource,
    corpus_files,
    document_tokens,
    evaluation_files,
    held_out_shards,
    open_documents,
)
from albert_tf.errors import InputError
from albert_tf.recipes import ExampleSettings, PretrainingRecipe
from albert_tf.settings import flatten_record
from albert_tf.text.files import Paths, file_identities
from albert_tf.training.distribution import DistributedBatches, distribute_batches

# The same examples each time, on every host, independent of the run's seed.
_ONCE = {"seed": 0, "shuffle": False, "repeat": False}


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Text to train on and text to evaluate on. The part `held_out` is not trained on.

    Args:
      train: inputs of `pretraining_dataset`.
      eval: inputs to evaluate on. None: text of `train` that `prepare` has held out, otherwise `held_out`.
      tokenizer: arguments `vocabulary`, `lowercase` and `strip_accents` of `pretraining_dataset`.
      held_out: part of `train` to evaluate on instead of training on it.
    """

    train: Sequence[str]
    eval: Sequence[str] | None
    tokenizer: Mapping[str, Any]
    held_out: CorpusSplit | None = None

    @functools.cached_property
    def evaluation(self) -> list[str]:
        """Inputs to evaluate on. Empty if they are the part `held_out` of `train`."""
        return held_out_shards(self.train) if self.eval is None else evaluation_files(self.eval)

    @functools.cached_property
    def source(self) -> DocumentSource:
        """The documents of `train`. Raises InputError if they are finished examples."""
        return open_documents(self.train, **self.tokenizer)

    def record(self) -> dict[str, Any]:
        """The entries of recipe.json. They identify files by content, not by folder."""
        files = {
            f"{text}_files": file_identities(corpus_files(inputs)) if inputs else None
            for text, inputs in (("train", self.train), ("eval", self.evaluation))
        }
        return {
            **files,
            "train": list(self.train),
            "eval": None if self.eval is None else list(self.eval),
            "held_out": self.held_out and self.held_out._asdict(),
        }

    @staticmethod
    def shared_files(record: Mapping[str, Any]) -> list[str]:
        """The names of files that are both trained and evaluated on, given the corpus' `record`."""
        train, evaluated = (
            {(file["bytes"], file["sha256"]): file["name"] for file in record[name] or () if file["bytes"]}
            for name in ("train_files", "eval_files")
        )
        return [name for identity, name in evaluated.items() if identity in train]

    def training_batches(
        self, recipe: PretrainingRecipe, seed: int, data_service: str | None = None
    ) -> DistributedBatches:
        """The endless batches to train on, for the current strategy."""

        def make_batches(rows: int, context: tf.distribute.InputContext | None) -> tf.data.Dataset:
            options = {"seed": seed, "input_context": context, "data_service": data_service}
            split = self._training_split
            return self._dataset(self.train, recipe.examples, batch_size=rows, share=split, **options)

        return distribute_batches(tf.distribute.get_strategy(), make_batches, recipe.batch_size)

    def training_tokens(self, most: int) -> Iterator[np.ndarray]:
        """The tokens of each training document, integer [T], in file order, at most `most` in total."""
        return document_tokens(self.source.select(self._training_split), most)

    def evaluation_batches(self, examples: ExampleSettings, batch_size: int) -> tf.data.Dataset:
        """The batches to evaluate on, the same each time. Those of a held-out part stay in memory."""
        if self.evaluation:
            return self._dataset(self.evaluation, examples, batch_size=batch_size, **_ONCE)
        assert self.held_out is not None
        split = evaluation_split(self.held_out, self.train)
        return self._dataset(self.train, examples, batch_size=batch_size, share=split, cache=True, **_ONCE)

    def with_held_out_split(
        self, examples: ExampleSettings, recorded_recipe: Mapping[str, Any] | None
    ) -> Corpus:
        """Returns the corpus of a run, with a held-out part of `train` if there is no other evaluation text.

        Args:
          examples: settings of the examples. Both parts must be long enough to make one.
          recorded_recipe: recipe.json of an existing run, whose held-out part is used again. None: the run is
            new.
        """
        if self.evaluation:
            try:
                self._check_evaluation(self.evaluation, examples)
            except NoExamplesError as error:
                raise InputError(f"{error}: name more text by `eval`") from error
        if recorded_recipe is not None:
            return self._with_recorded_split(recorded_recipe)
        if self.evaluation:
            return self
        reason: NoExamplesError | None = None
        for split in held_out_candidates(self.source):
            try:
                self._check_evaluation(self.train, examples, share=evaluation_split(split, self.train))
                self._dataset(self.train, examples, share=split.complement, batch_size=1, **_ONCE)
                return dataclasses.replace(self, held_out=split)
            except NoExamplesError as error:
                reason = error
        raise InputError(
            f"no text to hold out of {' '.join(self.train)}, which is too short ({reason or 'it is empty'}): "
            "name other text by `eval`"
        )

    def _check_evaluation(self, inputs: Sequence[str], examples: ExampleSettings, **options: Any) -> None:
        """Raises NoExamplesError if text makes no example, or none of them has a token to predict."""
        batches = self._dataset(inputs, examples, batch_size=1, **options, **_ONCE)
        if examples.masked_lm_prob and not any(tf.reduce_any(batch[MLM_WEIGHTS] > 0) for batch in batches):
            raise NoExamplesError(f"{', '.join(inputs[:3])}: no token of its examples is masked")

    def _with_recorded_split(self, recorded_recipe: Mapping[str, Any]) -> Corpus:
        """Returns the corpus with the held-out part that recipe.json names."""
        old_eval, recorded = recorded_recipe["eval"], recorded_recipe["held_out"]
        if recorded is not None:
            held_out = CorpusSplit(*(recorded[name] for name in CorpusSplit._fields))
            return dataclasses.replace(self, held_out=held_out)
        if not self.evaluation:
            raise InputError(
                "the run has been training on all of its text and evaluating on other text: name that again, "
                f"`eval` {shlex.join(old_eval or ['TEXT'])}, or another `output`"
            )
        return self

    @property
    def _training_split(self) -> CorpusSplit | None:
        """The part of `train` to train on. None: all of it."""
        return None if self.held_out is None else self.held_out.complement

    def _dataset(self, inputs: Sequence[str], examples: ExampleSettings, **options: Any) -> tf.data.Dataset:
        return pretraining_dataset(inputs, **flatten_record(examples), **self.tokenizer, **options)


# The choice of held-out text.

HELD_OUT_FRACTION = 0.01
MAX_HELD_OUT_FRACTION = 0.25  # of the text, if documents are so large that no hundredth can be chosen

# Largest corpus, in bytes, that is read as a whole to choose the held-out text. That takes seconds.
SMALL_CORPUS = 1 << 26

# Most text to evaluate on, in bytes: enough for the third digit of a loss, and it fits into memory.
MAX_EVALUATED_BYTES = 1 << 24


def held_out_candidates(source: DocumentSource) -> Iterator[CorpusSplit]:
    """Yields parts of a corpus to hold out, best first: about a hundredth of the text, or a little more.

    First come whole documents with the lowest hashes, up to MAX_HELD_OUT_FRACTION of the text, or about a
    hundredth of the documents if the corpus has more than SMALL_CORPUS bytes. Then comes the end of each
    document. A part may be too small for an example.
    """
    fractions = [HELD_OUT_FRACTION * 2**n for n in range(6)]
    if _corpus_bytes(source.files) > SMALL_CORPUS:
        yield CorpusSplit(BY_HASH, 0.0, HELD_OUT_FRACTION, f"{HELD_OUT_FRACTION:.0%} of the documents")
    else:
        hashes, sizes = _hashes_and_sizes(source)
        if len(hashes) == 0:
            return
        distinct, first = np.unique(hashes, return_index=True)
        documents = np.append(first[1:], len(hashes))  # number of documents up to each distinct hash
        text = np.cumsum(sizes)[documents - 1] / np.sum(sizes)
        for last in dict.fromkeys(np.searchsorted(text, fractions).tolist()):
            if text[last] <= MAX_HELD_OUT_FRACTION:
                what = f"{documents[last]:,} of {len(hashes):,} documents, {text[last]:.1%} of the text"
                yield CorpusSplit(BY_HASH, 0.0, (int(distinct[last]) + 1) / HASH_BUCKETS, what)
    for fraction in fractions:
        yield CorpusSplit(BY_POSITION, 1 - fraction, 1.0, f"the last {fraction:.0%} of each document")


def evaluation_split(held_out: CorpusSplit, inputs: Paths) -> CorpusSplit:
    """The part of a held-out split to evaluate on: all of it, but at most about MAX_EVALUATED_BYTES."""
    return held_out.limit_size(MAX_EVALUATED_BYTES / max(_corpus_bytes(corpus_files(inputs)), 1))


def _corpus_bytes(files: Iterable[str]) -> int:
    """Total size of files in bytes, as stored."""
    return sum(tf.io.gfile.stat(file).length for file in files)


def _hashes_and_sizes(source: DocumentSource) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the documents, ascending, and their sizes in bytes."""
    documents = tf.data.Dataset.from_tensor_slices(source.files).flat_map(source.read_with_buckets)
    pairs = documents.map(lambda text, number: [number, tf.cast(tf.strings.length(text), tf.int64)])
    blocks = [np.stack(block, axis=1) for block in pairs.batch(1024).as_numpy_iterator()]  # [N, 2]
    hashes, sizes = np.concatenate([np.zeros([0, 2], np.int64), *blocks]).T
    order = np.argsort(hashes, kind="stable")
    return hashes[order], sizes[order]
