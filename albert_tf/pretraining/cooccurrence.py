"""Initial word embeddings from co-occurrence counts: positive PMI, reduced by a truncated SVD.

Tokens that occur in the same contexts start with similar vectors. From random vectors, training would have to
learn that first.
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

WINDOW = 5  # tokens on each side that count as near, all equally; with 10 or 2 the loss falls later
SMOOTHING = 0.75  # exponent of the contexts' frequencies: without it rare contexts weigh too much
MAX_COUNTED = 20_000_000  # tokens; more change little

_BLOCK_SIZE = 1 << 20  # tokens; bounds the memory for their pairs


class TokenCounts(NamedTuple):
    """Counts of tokens and of pairs of tokens."""

    tokens: np.ndarray  # int64 [V], how often each token occurs
    pairs: sparse.csr_matrix  # int32 [V, V], symmetric: how often two tokens are near each other


def count_cooccurrences(documents: Iterable[np.ndarray], vocab_size: int) -> TokenCounts:
    """Counts tokens, and pairs of tokens with a distance of at most WINDOW in the same document.

    Args:
      documents: token ids of each document, integer [T].
      vocab_size: size of the vocabulary, V.
    """
    shape = (vocab_size, vocab_size)
    tokens, pairs = np.zeros([vocab_size], np.int64), sparse.csr_matrix(shape, dtype=np.int32)
    for block in group_by_size(documents, len, _BLOCK_SIZE):
        ids, numbers = np.concatenate(block), np.repeat(np.arange(len(block)), [len(ids) for ids in block])
        tokens += np.bincount(ids, minlength=vocab_size)
        near = [numbers[k:] == numbers[:-k] for k in range(1, min(WINDOW + 1, len(ids)))]
        before = np.concatenate([ids[:0], *(ids[:-k][same] for k, same in enumerate(near, 1))])
        after = np.concatenate([ids[:0], *(ids[k:][same] for k, same in enumerate(near, 1))])
        pairs += sparse.coo_matrix((np.ones(len(before), np.int32), (before, after)), shape).tocsr()
    return TokenCounts(tokens, (pairs + pairs.T).tocsr())


def positive_pmi(pairs: sparse.csr_matrix) -> sparse.csr_matrix:
    """Positive pointwise mutual information of tokens w and contexts c.

    max(0, log(#(w, c) / (#(w) · P(c)))), where P(c) ∝ #(c)**SMOOTHING. float32 [V, V] from counts [V, V].

    Source: Levy, Goldberg & Dagan 2015, Improving Distributional Similarity, §2.1 and §3.2.
    """
    total = np.asarray(pairs.sum(axis=1), np.float64).ravel()  # #(w), and #(c): the counts are symmetric
    log_total = np.log(np.maximum(total, 1))
    log_context = SMOOTHING * log_total - np.log(np.maximum(np.sum(total**SMOOTHING), 1))
    values = np.log(pairs.data)
    values -= np.repeat(log_total, np.diff(pairs.indptr))
    values -= log_context[pairs.indices]
    pmi = sparse.csr_matrix(
        (np.maximum(values, 0).astype(np.float32), pairs.indices.copy(), pairs.indptr.copy()), pairs.shape
    )
    pmi.eliminate_zeros()
    return pmi


def word_vectors(pmi: sparse.csr_matrix, width: int) -> np.ndarray:
    """Reduces a PMI matrix [V, V] to word vectors, U · √S of its truncated singular value decomposition.

    Returns:
      float32 [V, K]. The column of the largest singular value is first. Tokens without any context have
      zeros. K is the smallest of `width`, V - 1 and the rank of the matrix.
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
    signs = np.sign(vectors[largest, np.arange(len(values))])  # the decomposition does not determine them
    vectors = vectors * signs * np.sqrt(values)
    vectors[np.diff(pmi.indptr) == 0] = 0  # exactly
    return vectors[:, :rank]


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    """log(count + 1) of each token, shifted to a mean of 0: float32 [V] from counts [V]."""
    logarithms = np.log(counts + 1.0)
    return (logarithms - np.mean(logarithms)).astype(np.float32)


def fill_embeddings(vectors: np.ndarray, table: np.ndarray, deviation: float) -> np.ndarray:
    """Writes vectors [V, K], scaled to a standard deviation, into a copy of an embedding table [V, E].

    K is at most E. Rows whose vector is zero, and the columns from K on, keep the values of the table.
    """
    known = np.any(vectors != 0, axis=1)
    filled = table.copy()
    if np.any(known):
        filled[known, : vectors.shape[1]] = vectors[known] * (deviation / np.std(vectors[known]))
    return filled


def weights_from_counts(counts: TokenCounts, config: AlbertConfig) -> Callable[[str], np.ndarray | None]:
    """Creates the function `read` of `build_model`: initial values by variable name. None: random values."""
    vectors = word_vectors(positive_pmi(counts.pairs), config.embedding_size)

    def read_variable(name: str) -> np.ndarray | None:
        if name == "embeddings/word_embeddings":
            # Drawn like the variable itself, so that all other random values are as in a run without counts.
            table = kernel_initializer(config)([config.vocab_size, config.embedding_size]).numpy()
            return fill_embeddings(vectors, table, config.initializer_range)
        return log_frequencies(counts.tokens) if name == "cls/predictions/output_bias" else None

    return read_variable
