"""Differences of outputs between a model in float32 and its export in bfloat16.

    python -m benchmarks.export_precision
    python -m benchmarks.export_precision --run run --text prepared

Takes random weights and random tokens, or a pre-trained run and its held-out text. Prints Markdown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

import albert_tf
from albert_tf.constants import MLM_WEIGHTS
from albert_tf.data.dataset import pretraining_dataset
from albert_tf.data.sources import evaluation_files
from albert_tf.pretraining.pretraining_settings import read_recipe
from albert_tf.runs.load_save import load
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.settings import flatten_record
from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.random_data import random_batch
from hub_export.export import cast_model

ROWS, LENGTH, PREDICTIONS = 4, 128, 20
TEXT_ROWS, TEXT_BATCHES = 32, 16
OUTPUTS = ("pooled_output", "sequence_output", "mlm_logits")


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument(
        "--preset", default="albert_base_v2", choices=albert_tf.PRESETS, help="(albert_base_v2)"
    )
    parser.add_argument("--run", help="pre-trained run, in place of the preset; with --text")
    parser.add_argument("--text", help="folder of `albert-tf prepare` with held-out documents")
    flags = smoke.read_flags(parser, preset=smoke.PRESET)
    if (flags.run is None) != (flags.text is None):
        parser.error("--run and --text go together")
    keras.utils.set_random_seed(0)
    if flags.run:
        model, batches = load(flags.run), make_evaluation_dataset(flags.run, flags.text)
    else:
        model = albert_tf.AlbertPretrainer(albert_tf.PRESETS[flags.preset])
        batches = [random_batch(ROWS, LENGTH, PREDICTIONS, model.config.vocab_size)]
    narrow = cast_model(model, "bfloat16")
    pairs = [(compute_outputs(model, batch), compute_outputs(narrow, batch)) for batch in batches]
    print_header("output", "largest value", "largest difference")
    for name in OUTPUTS:
        largest = max(np.abs(wide[name]).max() for wide, _ in pairs)
        difference = max(np.abs(wide[name] - narrow[name]).max() for wide, narrow in pairs)
        print_row(name, f"{largest:.3f}", f"{difference:.3f}")
    is_same = np.concatenate([np.equal(*(side["mlm_logits"].argmax(-1) for side in pair)) for pair in pairs])
    print(f"\nOf {is_same.size} positions, the most likely piece is the same for {is_same.mean():.4f}")
    sizes = [sum(variable.numpy().nbytes for variable in m.variables) / 1e6 for m in (model, narrow)]
    print(f"Variables: {sizes[0]:.1f} MB in float32, {sizes[1]:.1f} MB in bfloat16")


def compute_outputs(model: keras.Model, batch: dict[str, Any]) -> dict[str, np.ndarray]:
    """The outputs in float32, without padding; logits of the masked positions alone."""
    outputs = model(batch)
    masks = {
        "pooled_output": np.asarray(batch["input_mask"])[:, 0] > 0,  # without rows that fill a batch
        "sequence_output": np.asarray(batch["input_mask"]) > 0,
        "mlm_logits": np.asarray(batch[MLM_WEIGHTS]) > 0,
    }
    return {name: outputs[name].numpy().astype(np.float32)[mask] for name, mask in masks.items()}


def make_evaluation_dataset(run: str, text: str) -> tf.data.Dataset:
    """Batches of the documents that `prepare` holds out, masked by the settings of the run."""
    return pretraining_dataset(
        evaluation_files([text]), vocabulary=RunDirectory(run).vocabulary, batch_size=TEXT_ROWS, seed=0,
        shuffle=False, repeat=False, **flatten_record(read_recipe(Path(run)).examples),
        **RunDirectory(run).tokenizer,
    ).take(TEXT_BATCHES)  # fmt: skip


if __name__ == "__main__":
    main()
