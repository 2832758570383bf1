"""Word embeddings from counts: what pieces stand near, weighed and reduced to as many numbers as are wanted.

Pieces that stand in the same contexts begin with nearly the same vector, which random ones would have to be
trained to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from albert_tf.config import AlbertConfig
from albert_tf.models.layers import kernel_initializer
from albert_tf.text.lines import group_by_size

WINDOW = 5  # pieces on each side that are counted as near; with 10 or 2 the loss falls later
SMOOTHING = 0.75  # power of the contexts' frequencies: without it rare contexts weigh too much
MAX_COUNTED = 20_000_000  # pieces of a text; more change little

_BLOCK_SIZE = 1 << 20  # pieces, which bounds the memory for their pairs


class Counts(NamedTuple):
    """Counts of the pieces of documents."""

    pieces: np.ndarray  # int64 [V], how often each piece occurs
    pairs: sparse.csr_matrix  # int32 [V, V], symmetric: how often each piece stands near each other


def counts(documents: Iterable[np.ndarray], vocab_size: int, window: int = WINDOW) -> Counts:
    """Counts of pieces, and of pairs of pieces near each other in the same document.

    Args:
      documents: ids of each, integer [T].
      vocab_size: V.
      window: pieces on each side that are near; the nearest count as much as the farthest.
    """
    shape = (vocab_size, vocab_size)
    pieces, pairs = np.zeros([vocab_size], np.int64), sparse.csr_matrix(shape, dtype=np.int32)
    for block in group_by_size(documents, len, _BLOCK_SIZE):
        ids, numbers = np.concatenate(block), np.repeat(np.arange(len(block)), [len(ids) for ids in block])
        pieces += np.bincount(ids, minlength=vocab_size)
        near = [numbers[k:] == numbers[:-k] for k in range(1, min(window + 1, len(ids)))]
        before = np.concatenate([ids[:0], *(ids[:-k][same] for k, same in enumerate(near, 1))])
        after = np.concatenate([ids[:0], *(ids[k:][same] for k, same in enumerate(near, 1))])
        pairs += sparse.coo_matrix((np.ones(len(before), np.int32), (before, after)), shape).tocsr()
    return Counts(pieces, (pairs + pairs.T).tocsr())


def positive_pmi(pairs: sparse.csr_matrix, smoothing: float = SMOOTHING) -> sparse.csr_matrix:
    """Positive pointwise mutual information of pieces w and contexts c.

    max(0, log(#(w, c) / (#(w) · P(c)))), where P(c) ∝ #(c)**smoothing; float32 [V, V] of counts [V, V].

    Source: Levy, Goldberg & Dagan 2015, Improving Distributional Similarity, §2.1 and §3.2.
    """
    total = np.asarray(pairs.sum(axis=1), np.float64).ravel()  # #(w), and #(c): the counts are symmetric
    log_total = np.log(np.maximum(total, 1))
    log_context = smoothing * log_total - np.log(np.maximum(np.sum(total**smoothing), 1))
    values = np.log(pairs.data)
    values -= np.repeat(log_total, np.diff(pairs.indptr))
    values -= log_context[pairs.indices]
    pmi = sparse.csr_matrix(
        (np.maximum(values, 0).astype(np.float32), pairs.indices.copy(), pairs.indptr.copy()), pairs.shape
    )
    pmi.eliminate_zeros()
    return pmi


def word_vectors(pmi: sparse.csr_matrix, width: int) -> np.ndarray:
    """The best vectors of so few numbers, U · √S of the truncated singular value decomposition.

    Returns:
      float32 [V, K], the largest singular value's column first; of a piece without any context, zeros. K is
      the width or, where that is less, V - 1 or the rank of the matrix.
    Source: Levy, Goldberg & Dagan 2015, §3.3, eigenvalue weighting with p = 0.5.
    """
    size = pmi.shape[0]
    if pmi.nnz == 0:
        return np.zeros([size, 0], np.float32)
    first = np.random.default_rng(0).standard_normal(size, np.float32)
    vectors, values, _ = svds(pmi, k=min(width, size - 1), v0=first)
    order = np.argsort(-values)
    vectors, values = vectors[:, order], values[order]
    rank = np.count_nonzero(values > values[0] * size * np.finfo(np.float32).eps)
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[largest, np.arange(len(values))])  # which the decomposition leaves open
    vectors = vectors * signs * np.sqrt(values)
    vectors[np.diff(pmi.indptr) == 0] = 0  # to the last bit
    return vectors[:, :rank]


def log_frequencies(pieces: np.ndarray) -> np.ndarray:
    """Logarithms of the pieces' frequencies [V], float32, each counted once more; their mean is 0."""
    logarithms = np.log(pieces + 1.0)
    return (logarithms - np.mean(logarithms)).astype(np.float32)


def place_vectors(vectors: np.ndarray, table: np.ndarray, deviation: float) -> np.ndarray:
    """A table of embeddings [V, E] with vectors [V, K] in it, K at most E, scaled to a standard deviation.

    Rows whose vector is zero stay as they are, for nothing is known of them; so do columns from K on.
    """
    known = np.any(vectors != 0, axis=1)
    filled = table.copy()
    if np.any(known):
        filled[known, : vectors.shape[1]] = vectors[known] * (deviation / np.std(vectors[known]))
    return filled


def first_weights(counted: Counts, config: AlbertConfig) -> Callable[[str], np.ndarray | None]:
    """The first value of a variable by its name, None where it begins at random; for `build_model`."""
    vectors = word_vectors(positive_pmi(counted.pairs), config.embedding_size)

    def read(name: str) -> np.ndarray | None:
        if name == "embeddings/word_embeddings":
            # Drawn where the variable would be, so that whatever is random is as in a run without counts.
            table = kernel_initializer(config)([config.vocab_size, config.embedding_size]).numpy()
            return place_vectors(vectors, table, config.initializer_range)
        return log_frequencies(counted.pieces) if name == "cls/predictions/output_bias" else None

    return read
