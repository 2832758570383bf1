"""The tokens of a corpus' documents, for what is counted of them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from albert_tf.data.documents import corpus_documents
from albert_tf.data.shares import Share
from albert_tf.data.sources import document_source, find_inputs
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

    Args:
      inputs: text or prepared documents; arguments and errors are those of `pretraining_dataset`.
      vocabulary: the tokenizer's.
      lowercase: of the tokenizer.
      strip_accents: of the tokenizer.
      share: only this part of the documents; None takes all.
      most: tokens after which the corpus ends, within a document if need be; None reads all of it.
    Returns:
      int32 [T] for each document, or each part of one that is longer than MAX_DOCUMENT_BYTES.
    """
    tokenizer = open_tokenizer(vocabulary, lowercase=lowercase, strip_accents=strip_accents)
    source = document_source(find_inputs(inputs, tokenizer), tokenizer).part(share)
    blocks = (
        corpus_documents(source.files, source.read, tf.distribute.InputContext())
        .batch(_DOCUMENTS_PER_BATCH)
        .map(source.decode, tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
    )
    left = most
    for block in blocks.as_numpy_iterator():
        ends = np.append(0, np.cumsum(block.sentence_lengths))[np.cumsum(block.sentences)]
        for document in np.split(block.tokens, ends[:-1]):
            if left is not None:
                document = document[:left]
                left -= len(document)
            yield document
            if left == 0:
                return
