"""Tokens that a model does not read: those beyond its input, and those that its vocabulary lacks."""

from __future__ import annotations

import numpy as np

from albert_tf.tasks.examples.rows import TokenRows

# Share of unknown pieces above which a vocabulary is likely made for other texts.
MAX_UNKNOWN = 0.05


def unread(rows: TokenRows, seq_length: int) -> list[str]:
    """Lines about tokenised examples of which a part is not read; none where there is little to tell."""
    dropped = np.maximum(rows.sequence_lengths - seq_length, 0).sum(axis=1)  # [N]
    if rows.dropped is not None:
        dropped = dropped + rows.dropped
    unknown = int((rows.tokens == rows.unknown_id).sum())
    return unread_lines(dropped, rows.num_tokens, unknown, len(rows.tokens), seq_length)


def unread_lines(
    dropped: np.ndarray, num_tokens: int, num_unknown: int, num_pieces: int, seq_length: int
) -> list[str]:
    """Lines about counted tokens.

    Args:
      dropped: the tokens of each text that do not fit, integer [N].
      num_tokens: of all texts.
      num_unknown: pieces that are not in the vocabulary.
      num_pieces: all that were looked up.
      seq_length: longest sequence.
    """
    lines = []
    if dropped.any():
        lines.append(
            f"{(dropped > 0).sum():,} of {len(dropped):,} examples are longer than seq_length={seq_length}: "
            f"{dropped.sum() / num_tokens:.1%} of all tokens are dropped"
        )
    if num_unknown > MAX_UNKNOWN * num_pieces:
        lines.append(
            f"{num_unknown / num_pieces:.1%} of all tokens are unknown to the vocabulary: was it made for "
            "this language?"
        )
    return lines
