"""Size and time of an exported encoder in other runtimes, and the distance of its outputs from TensorFlow's.

    python -m benchmarks.runtimes

Exports a network of albert_base's shape with random weights, or the run of --run, and converts it by
`hub_export --to`. Prints Markdown: the size of the deployed files, the time of an input of 16 and of 128
tokens, and the largest difference of `pooled_output`. The runtimes have a process each, one after the other,
and as many threads as there are cores. The scripts of examples/runtimes load the networks.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import smoke
from benchmarks.markdown_tables import print_header, print_row
from benchmarks.random_data import add_noise, random_inputs
from benchmarks.timers import run_module, time_calls

ROOT = Path(__file__).resolve().parents[1]
LENGTHS = (16, 128)
WARM_UP = 10


class Row(NamedTuple):
    """A row of the table.

    Attributes:
      runtime: runtime of `hub_export --to`.
      script: script of examples/runtimes whose `load` reads the file.
      file: name of the network's file.
      load: further arguments of `load`.
    """

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
        print(json.dumps(measure_runtime(row, Path(folder), options.rounds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(options.run, Path(folder), smoke.PRESET if options.smoke else "albert_base_v2")
        print_header("runtime", "MB", "ms, 1×16", "ms, 1×128", "largest difference")
        for row in (TENSORFLOW, *ROWS):
            flags = ["--rounds", options.rounds, "--measure", row, folder]
            result = run_module("benchmarks.runtimes", *flags)
            times = (f"{milliseconds:.1f}" for milliseconds in result["milliseconds"])
            print_row(row, f"{result['mb']:.1f}", *times, f"{result['difference']:.1e}")


def write_encoder(run: Path | None, folder: Path, preset: str) -> None:
    """Writes the module, the path of its run, and inputs of each length with TensorFlow's outputs."""
    import tensorflow as tf

    import albert_tf
    from hub_export.export import export

    if run is not None:
        model = albert_tf.load(run).encoder
    else:
        model = albert_tf.AlbertEncoder(albert_tf.PRESETS[preset])
        add_noise(model.variables)
    run = folder / "run"
    albert_tf.save(model, run)
    (folder / "run.txt").write_text(str(run.resolve()))
    export(run, folder / "hub", encoder_only=True, check=False)
    encoder = tf.saved_model.load(str(folder / "hub/encoder"))
    for length in LENGTHS:
        inputs = random_inputs(1, length, model.config.vocab_size)
        outputs = encoder({name: tf.constant(array) for name, array in inputs.items()})
        np.savez(folder / f"inputs-{length}.npz", expected=outputs["pooled_output"].numpy(), **inputs)


def measure_runtime(row: str, folder: Path, rounds: int) -> dict[str, object]:
    """Size, times and largest difference of one runtime."""
    milliseconds, differences = [], []
    for length in LENGTHS:
        inputs = dict(np.load(folder / f"inputs-{length}.npz"))
        expected = inputs.pop("expected")
        pooled_output, files = load_encoder(row, folder, length)
        differences.append(float(np.abs(pooled_output(inputs) - expected).max()))
        seconds = time_calls(lambda: pooled_output(inputs), rounds, WARM_UP)  # noqa: B023
        milliseconds.append(1000 * statistics.median(seconds))
    size = sum(file.stat().st_size for file in files)
    return {"milliseconds": milliseconds, "mb": size / 1e6, "difference": max(differences)}


def load_encoder(row: str, folder: Path, length: int) -> tuple[Callable[[Inputs], np.ndarray], list[Path]]:
    """A function from the encoder's inputs to its pooled output in a runtime, and the encoder's files."""
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
    network = folder / f"{runtime.runtime}-{length}"  # LiteRT's graph is for one length
    if not network.exists():
        from hub_export.other_runtimes import export_to

        export_to((folder / "run.txt").read_text(), network, runtime.runtime, seq_length=length)
    model = network / runtime.file
    compute, _ = importlib.import_module(runtime.script).load(str(model), **runtime.load)
    files = list(network.glob(f"{model.stem}.*"))
    return lambda inputs: compute(inputs)["pooled_output"], files


if __name__ == "__main__":
    main()
