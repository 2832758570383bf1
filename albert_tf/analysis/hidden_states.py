"""What layers and attention heads do to text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.constants import INPUT_MASK
from albert_tf.io import new_directory
from albert_tf.models.encoder import AlbertEncoder, ModelInputs
from albert_tf.report import LINES, ReportTable

LAYER_COLUMNS = ("run", "layer", "L2 distance", "cosine similarity")


def layer_states(encoder: AlbertEncoder, inputs: ModelInputs) -> list[tf.Tensor]:
    """The hidden states before the first layer and after each, L · inner_group_num + 1 of [B, S, H]."""
    outputs = encoder(inputs, training=False)
    first = outputs["embedding_output"]  # [B, S, E]
    if encoder.projection is not None:
        first = encoder.projection(first)  # [B, S, H]
    return [first, *outputs["encoder_outputs"]]


def layer_changes(encoder: AlbertEncoder, batches: Iterable[ModelInputs]) -> np.ndarray:
    """L2 distance and cosine similarity of the hidden states before and after each layer, float64 [L, 2].

    They are means over all tokens, padding left out. Batches are the encoder's inputs, `input_mask` included.

    Source: Lan et al. 2020, Figure 1.
    """
    total, count = np.zeros([]), 0
    for inputs in batches:
        states = np.stack(layer_states(encoder, inputs)).astype(np.float64)  # [L + 1, B, S, H]
        states = states[:, np.asarray(inputs[INPUT_MASK]) > 0]  # [L + 1, T, H]
        before, after = states[:-1], states[1:]
        norms = np.linalg.norm(states, axis=-1)  # [L + 1, T]
        distance = np.linalg.norm(after - before, axis=-1)  # [L, T]
        cosine = (before * after).sum(axis=-1) / (norms[:-1] * norms[1:])
        total = total + np.stack([distance.sum(axis=1), cosine.sum(axis=1)], axis=1)
        count += states.shape[1]
    return total / count


def write_layers(changes: Mapping[str, np.ndarray], output: str | os.PathLike[str]) -> None:
    """Writes layers.csv and layers.png to a new folder, of the `layer_changes` of runs by their names."""
    from albert_tf.report_folder import picture

    rows = [
        (name, layer, *map(float, row))
        for name, found in changes.items()
        for layer, row in enumerate(found, start=1)
    ]
    table, drawn = ReportTable("layers", "", LAYER_COLUMNS, rows), []
    for place, measure in enumerate(LAYER_COLUMNS[2:], start=2):
        columns, points = (*LAYER_COLUMNS[:2], measure), [(*row[:2], row[place]) for row in rows]
        drawn.append(ReportTable("layers", f"{measure} of input and output", columns, points, LINES))
    with new_directory(Path(output)) as folder:
        (folder / "layers.csv").write_text(table.csv(), encoding="utf-8")
        (folder / "layers.png").write_bytes(picture(drawn))


ATTENTION_COLUMNS = ("text", "layer", "head", "from", "from piece", "to", "to piece", "probability")


def attention_maps(encoder: AlbertEncoder, inputs: ModelInputs) -> np.ndarray:
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
    from albert_tf.report_folder import grid_of_maps

    rows = [
        (text, layer + 1, head + 1, start, names[start], end, names[end], float(value))
        for text, (of_text, names) in enumerate(zip(maps, pieces, strict=True))
        for (layer, head, start, end), value in np.ndenumerate(of_text)
    ]
    table = ReportTable("attention", "", ATTENTION_COLUMNS, rows)
    with new_directory(Path(output)) as folder:
        (folder / "attention.csv").write_text(table.csv(), encoding="utf-8")
        for number, of_text in enumerate(maps):
            (folder / f"attention-{number}.png").write_bytes(grid_of_maps(of_text, pieces[number]))
