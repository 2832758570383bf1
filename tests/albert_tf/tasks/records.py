"""Records of texts, as a reader of tables makes them."""

import itertools

from albert_tf.tasks.examples import TextRecord


def text_records(texts, labels=(), pairs=()):
    """A record for each text, from line 2 of a file on."""
    rows = itertools.zip_longest(texts, pairs, labels)
    return [TextRecord("f.csv", n + 2, str(n), *row) for n, row in enumerate(rows)]
