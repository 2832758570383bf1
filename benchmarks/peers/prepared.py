"""What the programs are given: one network of random weights in the formats that they read, and its answers.

    python -m benchmarks.peers.prepared FOLDER '{"config": …, "vocabulary": …, "sentences": …, "cases": […]}'

The folder gets `config.json`, `facts.json`, `sentences.json`, the run, `float32/` and `bfloat16/` as
hub_export writes them, `google/` and `huggingface/` as `convert` does, and `expected-*.npy`.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import albert_tf
from albert_tf.conversion.convert import convert
from benchmarks.peers.compared import CASES, FORWARD, TEXT, encoder_inputs
from hub_export.export import export


def main() -> None:
    """Writes the folder."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text("utf-8"))
    cases = [CASES[name] for name in settings["cases"]]
    model = random_model(albert_tf.AlbertConfig.from_dict(settings["config"]))
    run = folder / "run"
    albert_tf.save(model, run, vocabulary=settings["vocabulary"])
    shutil.copy(run / "config.json", folder)
    parameters = albert_tf.parameter_count(model.config)["total"]
    write(folder / "facts.json", {"parameters": parameters})
    write(folder / "sentences.json", settings["sentences"])
    for precision in sorted({case.precision for case in cases}):
        encoder_only = settings["vocabulary"] is None
        export(run, folder / precision, encoder_only=encoder_only, dtype=precision, check=False)
    for target in ("google", "huggingface"):
        convert("run", target, run, folder / target)
    for case in cases:
        file = folder / f"expected-{case.kind}-{case.batch}x{case.length}.npy"
        if case.kind == FORWARD and not file.exists():
            inputs = encoder_inputs(case, model.config.vocab_size)
            np.save(file, model.encoder(inputs)["pooled_output"])
        elif case.kind == TEXT and not file.exists():
            preprocessor = tf.saved_model.load(str(folder / case.precision / "preprocessor"))
            first = preprocessor(tf.constant(settings["sentences"][: case.batch]))
            np.save(file, model.encoder(first)["pooled_output"])


def random_model(config: albert_tf.AlbertConfig) -> albert_tf.AlbertPretrainer:
    """A network none of whose biases is 0 and gains is 1, so that what a program leaves out shows."""
    model = albert_tf.AlbertPretrainer(config, sentence_objective="sop")
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 0], stddev=0.02))
    return model


def write(file: Path, value: Any) -> None:
    """As JSON."""
    file.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
