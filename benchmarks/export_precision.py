"""How far a model in bfloat16, as it is exported, answers from the same model in float32.

    python -m benchmarks.export_precision
    python -m benchmarks.export_precision --run run --text prepared

Random weights and random tokens, of one seed, or a pre-trained run and what is held out of its text; prints
Markdown.
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
    parser.add_argument("--run", help="pre-trained, in the preset's place; with --text")
    parser.add_argument("--text", help="folder of `albert-tf prepare` that holds documents out")
    flags = smoke.read_flags(parser, preset=smoke.PRESET)
    if (flags.run is None) != (flags.text is None):
        parser.error("--run and --text go together")
    keras.utils.set_random_seed(0)
    if flags.run:
        model, batches = load(flags.run), held_out(flags.run, flags.text)
    else:
        model = albert_tf.AlbertPretrainer(albert_tf.PRESETS[flags.preset])
        batches = [random_batch(model.config.vocab_size)]
    narrow = cast_model(model, "bfloat16")
    pairs = [(answers(model, batch), answers(narrow, batch)) for batch in batches]
    print("| output | largest value | largest difference |\n|---|---|---|")
    for name in OUTPUTS:
        largest = max(np.abs(wide[name]).max() for wide, _ in pairs)
        difference = max(np.abs(wide[name] - narrow[name]).max() for wide, narrow in pairs)
        print(f"| {name} | {largest:.3f} | {difference:.3f} |")
    same = np.concatenate([np.equal(*(each["mlm_logits"].argmax(-1) for each in pair)) for pair in pairs])
    print(f"\nOf {same.size} positions, the most likely piece is the same for {same.mean():.4f}")
    sizes = [sum(variable.numpy().nbytes for variable in m.variables) / 1e6 for m in (model, narrow)]
    print(f"Variables: {sizes[0]:.1f} MB in float32, {sizes[1]:.1f} MB in bfloat16")


def answers(model: keras.Model, batch: dict[str, Any]) -> dict[str, np.ndarray]:
    """The outputs to compare, in float32: of tokens, not of padding, and logits of what is asked."""
    outputs = model(batch)
    kept = {
        "pooled_output": np.asarray(batch["input_mask"])[:, 0] > 0,  # not of rows that fill a batch
        "sequence_output": np.asarray(batch["input_mask"]) > 0,
        "mlm_logits": np.asarray(batch[MLM_WEIGHTS]) > 0,
    }
    return {name: outputs[name].numpy().astype(np.float32)[rows] for name, rows in kept.items()}


def random_batch(vocab_size: int) -> dict[str, Any]:
    """Tokens without padding, of which the first of each row are asked for."""
    return {
        "input_word_ids": np.random.randint(5, vocab_size, [ROWS, LENGTH], np.int32),
        "input_mask": np.ones([ROWS, LENGTH], np.int32),
        "input_type_ids": np.zeros([ROWS, LENGTH], np.int32),
        "masked_lm_positions": np.tile(np.arange(PREDICTIONS, dtype=np.int32), [ROWS, 1]),
        MLM_WEIGHTS: np.ones([ROWS, PREDICTIONS], np.float32),
    }


def held_out(run: str, text: str) -> tf.data.Dataset:
    """Batches of the text that `prepare` holds out, masked as the run was trained."""
    return pretraining_dataset(
        evaluation_files([text]),
        vocabulary=RunDirectory(run).vocabulary,
        batch_size=TEXT_ROWS,
        seed=0,
        shuffle=False,
        repeat=False,
        **flatten_record(read_recipe(Path(run)).examples),
        **RunDirectory(run).tokenizer,
    ).take(TEXT_BATCHES)


if __name__ == "__main__":
    main()
