"""Distances by which layers move the hidden states of tokens, as tables and as a picture."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.features import MASK
from albert_tf.models.encoder import AlbertEncoder, Inputs
from albert_tf.reports.content import LINES, Table
from albert_tf.utils.files import new_directory

COLUMNS = ("run", "layer", "L2 distance", "cosine similarity")


def layer_states(encoder: AlbertEncoder, inputs: Inputs) -> list[tf.Tensor]:
    """The hidden states before the first layer and after each, L · inner_group_num + 1 of [B, S, H]."""
    outputs = encoder(inputs, training=False)
    first = outputs["embedding_output"]  # [B, S, E]
    if encoder.projection is not None:
        first = encoder.projection(first)  # [B, S, H]
    return [first, *outputs["encoder_outputs"]]


def layer_changes(encoder: AlbertEncoder, batches: Iterable[Inputs]) -> np.ndarray:
    """L2 distance and cosine similarity of the hidden states before and after each layer, float64 [L, 2].

    They are means over all tokens, padding left out. Batches are the encoder's inputs, `input_mask` included.

    Source: Lan et al. 2020, Figure 1.
    """
    total, count = np.zeros([]), 0
    for inputs in batches:
        states = np.stack(layer_states(encoder, inputs)).astype(np.float64)  # [L + 1, B, S, H]
        states = states[:, np.asarray(inputs[MASK]) > 0]  # [L + 1, T, H]
        before, after = states[:-1], states[1:]
        norms = np.linalg.norm(states, axis=-1)  # [L + 1, T]
        distance = np.linalg.norm(after - before, axis=-1)  # [L, T]
        cosine = (before * after).sum(axis=-1) / (norms[:-1] * norms[1:])
        total = total + np.stack([distance.sum(axis=1), cosine.sum(axis=1)], axis=1)
        count += states.shape[1]
    return total / count


def write_layers(changes: Mapping[str, np.ndarray], output: str | os.PathLike[str]) -> None:
    """Writes layers.csv and layers.png to a new folder, of the `layer_changes` of runs by their names."""
    from albert_tf.reports.drawing import picture

    rows = [
        (name, layer, *map(float, row))
        for name, found in changes.items()
        for layer, row in enumerate(found, start=1)
    ]
    run, layer, *measures = COLUMNS
    drawn = []
    for place, measure in enumerate(measures, start=2):
        points = [(*row[:2], row[place]) for row in rows]
        drawn.append(Table("layers", f"{measure} of input and output", (run, layer, measure), points, LINES))
    with new_directory(Path(output)) as folder:
        (folder / "layers.csv").write_text(Table("layers", "", COLUMNS, rows).csv(), encoding="utf-8")
        (folder / "layers.png").write_bytes(picture(drawn))
