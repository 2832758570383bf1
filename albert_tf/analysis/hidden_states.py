"""Hidden states and attention of a model: how layers change text, and which tokens heads attend to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from albert_tf.constants import INPUT_MASK
from albert_tf.io import csv_text, new_local_folder
from albert_tf.models.encoder import AlbertEncoder, ModelInputs
from albert_tf.report import LINES, ReportTable

LAYER_COLUMNS = ("run", "layer", "L2 distance", "cosine similarity")


def layer_states(encoder: AlbertEncoder, inputs: ModelInputs) -> list[tf.Tensor]:
    """Hidden states before the first layer and after each: L · inner_group_num + 1 tensors [B, S, H]."""
    outputs = encoder(inputs, training=False)
    first = outputs["embedding_output"]  # [B, S, E]
    if encoder.projection is not None:
        first = encoder.projection(first)  # [B, S, H]
    return [first, *outputs["encoder_outputs"]]


def layer_changes(encoder: AlbertEncoder, batches: Iterable[ModelInputs]) -> np.ndarray:
    """Computes L2 distance and cosine similarity between the input and the output of each layer.

    Args:
      encoder: the encoder.
      batches: inputs of the encoder, with `input_mask`.
    Returns:
      float64 [L, 2], means over all tokens without padding. L is the number of layers times inner_group_num.
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
    """Writes layers.csv and layers.png to a new folder. `changes`: `layer_changes` of runs by name."""
    from albert_tf.report_folder import draw_tables

    rows = [
        (name, layer, *map(float, row))
        for name, run_changes in changes.items()
        for layer, row in enumerate(run_changes, start=1)
    ]
    table, panels = ReportTable("layers", "", LAYER_COLUMNS, rows), []
    for column, measure in enumerate(LAYER_COLUMNS[2:], start=2):
        columns, points = (*LAYER_COLUMNS[:2], measure), [(*row[:2], row[column]) for row in rows]
        panels.append(ReportTable("layers", f"{measure} of input and output", columns, points, LINES))
    with new_local_folder(Path(output)) as folder:
        (folder / "layers.csv").write_text(table.csv(), encoding="utf-8")
        (folder / "layers.png").write_bytes(draw_tables(panels))


ATTENTION_COLUMNS = ("text", "layer", "head", "from", "from piece", "to", "to piece", "probability")


def attention_maps(encoder: AlbertEncoder, inputs: ModelInputs) -> np.ndarray:
    """Computes the attention probabilities of each token over all tokens.

    Args:
      encoder: the encoder.
      inputs: inputs of the encoder.
    Returns:
      float32 [B, L, N, S, S]. The last axis sums to 1. L is the number of layers times inner_group_num.
    """
    return np.stack(encoder(inputs, return_attentions=True)["attentions"], axis=1).astype(np.float32)


def write_attention(
    maps: Sequence[np.ndarray], pieces: Sequence[Sequence[str]], output: str | os.PathLike[str]
) -> None:
    """Writes attention.csv, and a picture attention-<number>.png for each text, to a new folder.

    Args:
      maps: attention of each text [L, N, T, T], without padding.
      pieces: T pieces of each text.
      output: new folder.
    """
    from albert_tf.report_folder import draw_attention_maps

    with new_local_folder(Path(output)) as folder:
        with (folder / "attention.csv").open("w", encoding="utf-8") as file:
            file.write(csv_text([ATTENTION_COLUMNS]))
            for text, (text_map, names) in enumerate(zip(maps, pieces, strict=True)):
                for layer, layer_map in enumerate(text_map, start=1):  # there may be millions of rows
                    rows = (
                        (text, layer, head + 1, start, names[start], end, names[end], float(value))
                        for (head, start, end), value in np.ndenumerate(layer_map)
                    )
                    file.write(csv_text(rows))
        for number, text_map in enumerate(maps):
            (folder / f"attention-{number}.png").write_bytes(draw_attention_maps(text_map, pieces[number]))
