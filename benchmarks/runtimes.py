"""What an exported encoder costs in other runtimes, and how far their answers are from TensorFlow's.

    python -m benchmarks.runtimes

Exports a network of albert_base's shape with random weights, or the run that --run names, converts it by
`hub_export --to`, and prints as Markdown: the size of what
is deployed, the time of an input of 16 and of 128 tokens, and the largest difference of `pooled_output`. Each
runtime has a process of its own, one after the other, and as many threads as there are cores. The scripts of
examples/runtimes load it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import smoke

ROOT = Path(__file__).resolve().parents[1]
LENGTHS = (16, 128)
WARM_UP = 10


class Row(NamedTuple):
    """A runtime of `hub_export --to`, the script of examples/runtimes that loads its file, with arguments."""

    runtime: str
    script: str
    file: str
    load: Mapping[str, Any] = {}


ROWS = {
    "OpenVINO, f32": Row("openvino", "with_openvino", "model.xml"),
    "OpenVINO, its own choice": Row("openvino", "with_openvino", "model.xml", {"exact": False}),
    "ONNX Runtime": Row("onnx", "with_onnxruntime", "model.onnx"),
    "LiteRT": Row("litert", "with_litert", "model.tflite"),
}
TENSORFLOW = "TensorFlow"

Inputs = Mapping[str, np.ndarray]


def main() -> None:
    """Prints the table."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", type=Path, help="run directory (random weights of albert_base's shape)")
    parser.add_argument("--rounds", type=int, default=100, help="timed calls of each (100)")
    parser.add_argument("--measure", nargs=2, metavar=("ROW", "FOLDER"), help=argparse.SUPPRESS)
    options = smoke.read_flags(parser, rounds=1)
    if options.measure:
        row, folder = options.measure
        print(json.dumps(measured(row, Path(folder), options.rounds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(options.run, Path(folder), smoke.PRESET if options.smoke else "albert_base_v2")
        print("| runtime | MB | ms, 1×16 | ms, 1×128 | largest difference |\n|---|---|---|---|---|")
        for row in (TENSORFLOW, *ROWS):
            command = [
                sys.executable,
                "-m",
                "benchmarks.runtimes",
                "--rounds",
                str(options.rounds),
                "--measure",
                row,
                folder,
            ]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            result = json.loads(done.stdout.splitlines()[-1])
            times = " | ".join(f"{milliseconds:.1f}" for milliseconds in result["milliseconds"])
            print(f"| {row} | {result['mb']:.1f} | {times} | {result['difference']:.1e} |", flush=True)


def write_encoder(run: Path | None, folder: Path, preset: str) -> None:
    """Writes the module, its run's place, and what it is asked and answers by TensorFlow at each length."""
    import tensorflow as tf

    import albert_tf
    from hub_export.export import export

    if run is not None:
        model = albert_tf.load(run).encoder
    else:
        model = albert_tf.AlbertEncoder(albert_tf.PRESETS[preset])
        for number, variable in enumerate(model.variables):  # no bias 0, no gain 1: what is left out shows
            variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 0], stddev=0.02))
    run = folder / "run"
    albert_tf.save(model, run)
    (folder / "run.txt").write_text(str(run.resolve()))
    export(run, folder / "hub", encoder_only=True, check=False)
    encoder = tf.saved_model.load(str(folder / "hub/encoder"))
    random = np.random.default_rng(0)
    vocab_size = model.config.vocab_size
    for length in LENGTHS:
        mask = np.ones([1, length], np.int32)
        ids = random.integers(5, vocab_size, mask.shape, dtype=np.int32)
        inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": 0 * mask}
        answer = encoder({name: tf.constant(array) for name, array in inputs.items()})["pooled_output"]
        np.savez(folder / f"inputs-{length}.npz", expected=answer.numpy(), **inputs)


def measured(row: str, folder: Path, rounds: int) -> dict[str, object]:
    """Size, times and largest difference of one runtime."""
    found: dict[str, list[float]] = {"milliseconds": [], "differences": []}
    for length in LENGTHS:
        inputs = dict(np.load(folder / f"inputs-{length}.npz"))
        expected = inputs.pop("expected")
        pooled_output, files = loaded(row, folder, length)
        found["differences"].append(float(np.abs(pooled_output(inputs) - expected).max()))
        found["milliseconds"].append(1000 * median_seconds(lambda: pooled_output(inputs), rounds))  # noqa: B023
    size = sum(file.stat().st_size for file in files)
    return {**found, "mb": size / 1e6, "difference": max(found["differences"])}


def loaded(row: str, folder: Path, length: int) -> tuple[Callable[[Inputs], np.ndarray], list[Path]]:
    """The encoder in a runtime, from its inputs to the pooled output, and the files that it is made of."""
    encoder = folder / "hub/encoder"
    if row == TENSORFLOW:
        import tensorflow as tf

        module = tf.saved_model.load(str(encoder))

        def pooled_output(inputs: Inputs) -> np.ndarray:
            tensors = {name: tf.constant(array) for name, array in inputs.items()}
            return module.signatures["serving_default"](**tensors)["pooled_output"].numpy()

        return pooled_output, [file for file in encoder.rglob("*") if file.is_file()]
    sys.path.append(str(ROOT / "examples/runtimes"))
    runtime = ROWS[row]
    place = folder / f"{runtime.runtime}-{length}"  # LiteRT's graph is for one length
    if not place.exists():
        from hub_export.other_runtimes import export_to

        export_to((folder / "run.txt").read_text(), place, runtime.runtime, seq_length=length)
    model = place / runtime.file
    outputs, _ = importlib.import_module(runtime.script).load(str(model), **runtime.load)
    files = list(place.glob(f"{model.stem}.*"))
    return lambda inputs: outputs(inputs)["pooled_output"], files


def median_seconds(call: Callable[[], object], rounds: int) -> float:
    """The median of the times of a call, once it is warm."""
    times = []
    for number in range(WARM_UP + rounds):
        started = time.perf_counter()
        call()
        if number >= WARM_UP:
            times.append(time.perf_counter() - started)
    return statistics.median(times)


if __name__ == "__main__":
    main()
