"""Sizes of exported encoders: their variables, compared with their parameters, and their graphs.

    python -m benchmarks.export_sizes

Exports the encoder of each preset with random weights, one after the other, and prints Markdown.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import tensorflow as tf

import albert_tf
from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from hub_export.modules import encoder_module


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    presets = list(albert_tf.PRESETS)
    parser.add_argument("--presets", nargs="+", default=presets, choices=albert_tf.PRESETS, help="(all)")
    names = smoke.read_flags(parser, presets=smoke.PRESET).presets
    print_header("preset", "parameters", "variables, bytes a parameter", "graph, MB")
    for name in names:
        print_size(name)


def print_size(name: str) -> None:
    """Exports the encoder of a preset, and prints a row of the table."""
    model = albert_tf.AlbertPretrainer(albert_tf.PRESETS[name])
    parameters = sum(variable.shape.num_elements() for variable in model.trainable_weights)
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(encoder_module(model), folder)
        variables = sum(path.stat().st_size for path in Path(folder, "variables").iterdir())
        graph = Path(folder, "saved_model.pb").stat().st_size
    print_row(name, f"{parameters:,}", f"{variables / parameters:.3f}", f"{graph / 1e6:.1f}")


if __name__ == "__main__":
    main()
