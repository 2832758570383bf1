"""The tokens of a corpus' documents, for what is counted of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf.data.documents import Documents, corpus_documents
from albert_tf.data.shares import Share
from albert_tf.data.sources import check_divisible, document_source, find_inputs
from albert_tf.raw_text.checks import check_text_files
from albert_tf.raw_text.paths import Paths
from albert_tf.tokenizers.kinds import open_tokenizer

_DOCUMENTS_PER_BATCH = 16


def document_tokens(
    inputs: Paths,
    vocabulary: str | os.PathLike,
    lowercase: bool,
    strip_accents: bool,
    share: Share | None = None,
    most: int | None = None,
) -> Iterator[np.ndarray]:
    """The tokens of each document of a corpus, in the order of the files; on every host all of them.

    Arguments and errors are those of `pretraining_dataset`; finished examples are refused.

    Args:
      inputs: text or prepared documents.
      vocabulary: the tokenizer's.
      lowercase: of the tokenizer.
      strip_accents: of the tokenizer.
      share: only this part of the documents; None takes all.
      most: tokens after which the corpus ends, within a document if need be; None reads all of it.
    Returns:
      int32 [T] for each document, or each part of one that is longer than MAX_DOCUMENT_BYTES.
    """
    tokenizer = open_tokenizer(vocabulary, lowercase=lowercase, strip_accents=strip_accents)
    found = find_inputs(inputs, tokenizer)
    check_divisible(found)
    if found.kind == "text":
        check_text_files(found.files)
    source = document_source(found, tokenizer, share)
    blocks = (
        corpus_documents(found.files, source.read, tf.distribute.InputContext())
        .batch(_DOCUMENTS_PER_BATCH)
        .map(lambda block: _tokens_and_ends(source.decode(block)), tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    left = most
    for tokens, ends in blocks.as_numpy_iterator():
        for document in np.split(tokens, ends[:-1]):
            if left is not None:
                document = document[:left]
                left -= len(document)
            yield document
            if left == 0:
                return


def _tokens_and_ends(documents: Documents) -> tuple[tf.Tensor, tf.Tensor]:
    """The tokens of documents, one after the other, and where each document ends: int32 [T], [D]."""
    ends = tf.concat([[0], tf.cumsum(documents.sentence_lengths)], axis=0)  # [N + 1], of sentences
    return documents.tokens, tf.gather(ends, tf.cumsum(documents.sentences))
