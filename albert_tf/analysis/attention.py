"""Attention maps of texts, as a table and as pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from albert_tf.models.encoder import AlbertEncoder, Inputs
from albert_tf.reports.content import Table
from albert_tf.utils.files import new_directory

COLUMNS = ("text", "layer", "head", "from", "from piece", "to", "to piece", "probability")


def attention_maps(encoder: AlbertEncoder, inputs: Inputs) -> np.ndarray:
    """The attention of each token to all tokens, float32 [B, L, N, S, S], whose last axis sums to 1.

    L counts blocks where inner_group_num is more than 1. Inputs are the encoder's.
    """
    return np.stack(encoder(inputs, return_attentions=True)["attentions"], axis=1).astype(np.float32)


def write_attention(
    maps: Sequence[np.ndarray], pieces: Sequence[Sequence[str]], output: str | os.PathLike[str]
) -> None:
    """Writes attention.csv and a picture of each text, attention-<number>.png, to a new folder.

    Args:
      maps: of each text [L, N, T, T], without padding.
      pieces: of each text T.
      output: the folder.
    """
    from albert_tf.reports.drawing import grid_of_maps

    rows = [
        (text, layer + 1, head + 1, start, names[start], end, names[end], float(value))
        for text, (of_text, names) in enumerate(zip(maps, pieces, strict=True))
        for (layer, head, start, end), value in np.ndenumerate(of_text)
    ]
    table = Table("attention", "", COLUMNS, rows)
    with new_directory(Path(output)) as folder:
        (folder / "attention.csv").write_text(table.csv(), encoding="utf-8")
        for number, of_text in enumerate(maps):
            (folder / f"attention-{number}.png").write_bytes(grid_of_maps(of_text, pieces[number]))
