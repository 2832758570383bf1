"""Text held out of a corpus, to be evaluated on and not trained on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import numpy as np
import tensorflow as tf

from albert_tf.data.documents import BY_HASH, BY_POSITION, HASHES, CorpusSplit
from albert_tf.data.sources import DocumentSource, corpus_files, open_documents
from albert_tf.text.files import Paths

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
