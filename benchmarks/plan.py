"""Memory that `albert-tf plan` predicts, beside the measured peaks of real updates.

    python -m benchmarks.plan
    python -m benchmarks.plan --cases xlarge

Trains a network for two updates on random tokens as `pretrain` does on a CPU, by LAMB, in a fresh process
for each case. Prints a row each as Markdown: the peak of resident memory above what is resident once
TensorFlow is imported, and what the arithmetic of `albert_tf.analysis.run_plan` says. The largest case takes
about 8 GB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks import smoke
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
    # Of these the arithmetic was not fitted.
    ("albert_base_v1", 8, 128, {}),
    ("albert_base_v2", 16, 128, {}),
    ("albert_large_v2", 2, 512, {}),
]


def main() -> None:
    """The command line; --case is for its own processes."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--cases", default="", help="those whose preset has this in its name (all)")
    parser.add_argument("--case", type=int, help=argparse.SUPPRESS)
    options = smoke.read_flags(parser, cases=smoke.PRESET)
    if options.smoke:
        CASES.append((smoke.PRESET, 2, 16, {}))
    if options.case is not None:
        print(json.dumps(measured(*CASES[options.case])))
        return
    columns = "network", "examples × tokens", "way", "measured, GB", "predicted, GB", "ratio"
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    for number, (preset, rows, length, settings) in enumerate(CASES):
        if options.cases in preset:
            command = [sys.executable, "-m", "benchmarks.plan", *sys.argv[1:], f"--case={number}"]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            peak, expected = json.loads(output), predicted(preset, rows, length, settings)
            way = ", ".join(f"{name} {value}" for name, value in settings.items())
            cells = (f"{rows} × {length}", way, f"{peak / 1e9:.2f}", f"{expected / 1e9:.2f}")
            print(f"| {preset} | {' | '.join(cells)} | {expected / peak:.2f} |", flush=True)


def predicted(preset: str, rows: int, length: int, settings: dict[str, Any]) -> float:
    """Bytes by arithmetic."""
    from albert_tf import PRESETS
    from albert_tf.analysis.run_plan import StepSettings, estimate_memory
    from albert_tf.training.compute_settings import ComputeConfig

    sizes = {"batch_size": rows, "seq_length": length, "predictions": PREDICTIONS}
    compute = ComputeConfig(**settings)
    return estimate_memory(StepSettings(config=PRESETS[preset], **sizes, compute=compute)).peak


def measured(preset: str, rows: int, length: int, settings: dict[str, Any]) -> float:
    """Bytes of this process above what it has once TensorFlow is imported."""
    from albert_tf import PRESETS

    config = PRESETS[preset]
    options = argparse.Namespace(
        preset=preset,
        layers=config.num_hidden_layers,
        sharing=config.sharing,
        batch_size=rows,
        seq_length=length,
        updates=1,
        precision=settings.get("precision", "float32"),
        xla=False,
    )
    ways = {name: int(value) for name, value in settings.items() if name != "precision"}
    return train(options, fused=1, **ways)["whole"]  # type: ignore[return-value]


if __name__ == "__main__":
    main()
