"""How much memory does `convert` take, compared with the checkpoint?

Writes a checkpoint of a preset's size with random values, and converts google → run → huggingface → run →
google, each step in a process of its own. Prints the peak of resident memory of each step (getrusage), and
the same without the memory of the interpreter and TensorFlow before the conversion. At the end the weights of
both checkpoints in google-research/albert's format are compared bit for bit.

    python -m benchmarks.convert_memory albert_xxlarge_v2
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from benchmarks import smoke
from benchmarks.memory import max_resident_bytes
from benchmarks.timers import run_module, time_call

STEPS = (
    ("google", "run", "original", "run1"),
    ("run", "huggingface", "run1", "hf"),
    ("huggingface", "run", "hf", "run2"),
    ("run", "google", "run2", "again"),
)


def write_random_checkpoint(preset: str, folder: Path) -> None:
    """Writes a checkpoint of a preset's size in google-research/albert's format."""
    import albert_tf
    from albert_tf.conversion.google import write_google

    folder.mkdir()
    write_google(albert_tf.AlbertPretrainer(albert_tf.PRESETS[preset]), folder, step=0)


def measure_step(source: str, target: str, read: str, write: str) -> dict[str, float]:
    """Converts once in this process; the bytes of memory before and at most, and the seconds."""
    import tensorflow as tf

    from albert_tf.conversion.convert import convert

    tf.constant(0.0)  # TensorFlow's own start
    before = max_resident_bytes()
    seconds = time_call(lambda: convert(source, target, read, write))
    return {"before": before, "peak": max_resident_bytes(), "seconds": seconds}


def has_same_weights(first: Path, second: Path) -> bool:
    """Whether two checkpoints hold the same weights, bit for bit."""
    import numpy as np
    import tensorflow as tf

    readers = [tf.train.load_checkpoint(str(folder / "model.ckpt-best")) for folder in (first, second)]
    shapes = [reader.get_variable_to_shape_map() for reader in readers]
    return shapes[0] == shapes[1] and all(
        np.array_equal(*(reader.get_tensor(name) for reader in readers)) for name in shapes[0]
    )


def measure(preset: str) -> list[dict[str, float | str]]:
    """Measures the steps: bytes of the checkpoint ("size"), of memory ("peak") and of its growth ("net")."""
    rows: list[dict[str, float | str]] = []
    command = ["benchmarks.convert_memory", *(["--smoke"] if preset == smoke.PRESET else [])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_module(*command, "--make", preset, folder / "original")
        size = sum(file.stat().st_size for file in (folder / "original").glob("*.data-*"))
        for source, target, read, write in STEPS:
            usage = run_module(*command, "--step", source, target, folder / read, folder / write)
            net = usage["peak"] - usage["before"]
            rows.append({"step": f"{source} → {target}", "size": size, "net": net, **usage})
        if not has_same_weights(folder / "original", folder / "again"):
            raise SystemExit("the weights did not come back bit for bit")
    return rows


def main() -> None:
    """Prints a line for each step; --make and --step are for its own processes."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("preset", nargs="?", default="albert_xxlarge_v2")
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    flags = smoke.read_flags(parser)
    if flags.make:
        write_random_checkpoint(flags.make[0], Path(flags.make[1]))
    elif flags.step:
        print(json.dumps(measure_step(*flags.step)))
    else:
        for row in measure(smoke.PRESET if flags.smoke else flags.preset):
            ratios = "  ".join(f"{key} {row[key] / row['size']:.2f}×" for key in ("peak", "net"))
            print(f"{row['step']:20} {row['size'] / 1e6:.0f} MB  {ratios}  {row['seconds']:.1f} s")


if __name__ == "__main__":
    main()
