"""How much memory does `convert` take, compared with the checkpoint?

Makes a checkpoint of a preset's true size with random values, then converts google → run → huggingface → run
→ google, each step in a process of its own, and prints the peak of its resident memory (getrusage), whole and
without what the interpreter and TensorFlow take before the conversion begins. At the end the weights of both
checkpoints of google-research/albert's format are compared bit for bit.

    python -m benchmarks.convert_memory albert_xxlarge_v2
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import smoke

STEPS = (
    ("google", "run", "original", "run1"),
    ("run", "huggingface", "run1", "hf"),
    ("huggingface", "run", "hf", "run2"),
    ("run", "google", "run2", "again"),
)


def peak() -> int:
    """Bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def make(preset: str, folder: Path) -> None:
    """A checkpoint of google-research/albert's format, of a preset's size."""
    import albert_tf
    from albert_tf.conversion.google import write_google

    folder.mkdir()
    write_google(albert_tf.AlbertPretrainer(albert_tf.PRESETS[preset]), folder, step=0)


def step(source: str, target: str, read: str, write: str) -> None:
    """One conversion; prints its memory and time as JSON."""
    import tensorflow as tf

    from albert_tf.conversion.convert import convert

    tf.constant(0.0)  # TensorFlow's own start
    before, start = peak(), time.perf_counter()
    convert(source, target, read, write)
    print(json.dumps({"before": before, "peak": peak(), "seconds": time.perf_counter() - start}))


def same(one: Path, other: Path) -> bool:
    """Whether two checkpoints hold the same weights, bit for bit."""
    import numpy as np
    import tensorflow as tf

    readers = [tf.train.load_checkpoint(str(folder / "model.ckpt-best")) for folder in (one, other)]
    shapes = [reader.get_variable_to_shape_map() for reader in readers]
    return shapes[0] == shapes[1] and all(
        np.array_equal(*(reader.get_tensor(name) for reader in readers)) for name in shapes[0]
    )


def measure(preset: str) -> list[dict[str, float | str]]:
    """What each step took: `size` of the checkpoint, `peak`, `net` of what was there before, in bytes."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def child(*arguments: str | Path) -> str:
            flags = ["--smoke"] if preset == smoke.PRESET else []
            command = [sys.executable, "-m", "benchmarks.convert_memory", *flags, *map(str, arguments)]
            return subprocess.run(command, check=True, capture_output=True, text=True).stdout

        child("--make", preset, folder / "original")
        size = sum(file.stat().st_size for file in (folder / "original").glob("*.data-*"))
        for source, target, read, write in STEPS:
            taken = json.loads(child("--step", source, target, folder / read, folder / write))
            net = taken["peak"] - taken["before"]
            rows.append({"step": f"{source} → {target}", "size": size, "net": net, **taken})
        if not same(folder / "original", folder / "again"):
            raise SystemExit("the weights did not come back bit for bit")
    return rows


def main() -> None:
    """The command line; --make and --step are for its own processes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("preset", nargs="?", default="albert_xxlarge_v2")
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    flags = smoke.read_flags(parser)
    if flags.make:
        make(flags.make[0], Path(flags.make[1]))
    elif flags.step:
        step(*flags.step)
    else:
        for row in measure(smoke.PRESET if flags.smoke else flags.preset):
            ratios = "  ".join(f"{key} {row[key] / row['size']:.2f}×" for key in ("peak", "net"))
            print(f"{row['step']:20} {row['size'] / 1e6:.0f} MB  {ratios}  {row['seconds']:.1f} s")


if __name__ == "__main__":
    main()
