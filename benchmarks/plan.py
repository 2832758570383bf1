"""Memory that `albert-tf plan` predicts, compared with the measured peaks of updates.

    python -m benchmarks.plan
    python -m benchmarks.plan --cases xlarge

Trains a network for two updates on random tokens as `pretrain` does on a CPU, by LAMB. Each case has a fresh
process and a row of Markdown: the peak of resident memory above the memory once TensorFlow is imported, and
the prediction of `albert_tf.analysis.run_plan`. The largest case takes about 8 GB.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.timers import run_module
from benchmarks.update import PREDICTIONS, train

# Preset, examples, tokens, and the settings of the update.
CASES: list[tuple[str, int, int, dict[str, Any]]] = [
    ("albert_base_v2", 8, 128, {}),
    ("albert_base_v2", 8, 128, {"remat": True}),
    ("albert_base_v2", 8, 128, {"accumulate": 4}),
    ("albert_base_v2", 8, 128, {"precision": "bfloat16"}),
    ("albert_base_v2", 4, 512, {}),
    ("albert_large_v2", 8, 128, {}),
    ("albert_large_v2", 8, 128, {"remat": True}),
    ("albert_large_v2", 8, 128, {"accumulate": 4}),
    ("albert_large_v2", 8, 128, {"precision": "bfloat16"}),
    ("albert_xlarge_v2", 4, 128, {}),
    ("albert_xlarge_v2", 4, 128, {"remat": True}),
    ("bert_base", 8, 128, {}),
    # The constants of the prediction were not fitted to the following cases.
    ("albert_base_v1", 8, 128, {}),
    ("albert_base_v2", 16, 128, {}),
    ("albert_large_v2", 2, 512, {}),
]


def main() -> None:
    """Prints the table; with --case, measures one case in this process."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--cases", default="", help="part of the presets' names (all)")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    options = smoke.read_flags(parser, cases=smoke.PRESET)
    if options.smoke:
        CASES.append((smoke.PRESET, 2, 16, {}))
    if options.case is not None:
        print(json.dumps(measure_memory(*CASES[options.case])))
        return
    print_header("network", "examples × tokens", "way", "measured, GB", "predicted, GB", "ratio")
    for number, (preset, rows, length, settings) in enumerate(CASES):
        if options.cases in preset:
            measured = run_module("benchmarks.plan", *sys.argv[1:], f"--case={number}")
            predicted = predict_memory(preset, rows, length, settings)
            way = ", ".join(f"{name} {value}" for name, value in settings.items())
            gigabytes = (f"{value / 1e9:.2f}" for value in (measured, predicted))
            print_row(preset, f"{rows} × {length}", way, *gigabytes, f"{predicted / measured:.2f}")


def predict_memory(preset: str, rows: int, length: int, settings: dict[str, Any]) -> float:
    """The prediction for a case, in bytes."""
    from albert_tf import PRESETS
    from albert_tf.analysis.run_plan import StepSettings, estimate_memory
    from albert_tf.training.compute_settings import ComputeConfig

    sizes = {"batch_size": rows, "seq_length": length, "predictions": PREDICTIONS}
    compute = ComputeConfig(**settings)
    return estimate_memory(StepSettings(config=PRESETS[preset], **sizes, compute=compute)).peak


def measure_memory(preset: str, rows: int, length: int, settings: dict[str, Any]) -> float:
    """The peak of this process above the memory once TensorFlow is imported, in bytes."""
    from albert_tf import PRESETS

    config = PRESETS[preset]
    options = argparse.Namespace(
        preset=preset, layers=config.num_hidden_layers, sharing=config.sharing, batch_size=rows,
        seq_length=length, updates=1, precision=settings.get("precision", "float32"), xla=False,
    )  # fmt: skip
    variant = {name: int(value) for name, value in settings.items() if name != "precision"}
    return train(options, fused=1, **variant)["whole"]  # type: ignore[return-value]


if __name__ == "__main__":
    main()
