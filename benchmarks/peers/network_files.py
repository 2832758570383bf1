"""Writes the inputs of the programs: one network with random weights in their formats, and its outputs.

    python -m benchmarks.peers.network_files FOLDER

The folder holds `settings.json`: {"config": …, "vocabulary": …, "sentences": […], "cases": […]}. Written are
`config.json`, `facts.json` (the number of parameters), `sentences.json`, the run, `float32/` and `bfloat16/`
by hub_export, `google/` and `huggingface/` by `convert`, and our pooled outputs, `expected-*.npy`.
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
from benchmarks.peers.cases import CASES, FORWARD, TEXT
from benchmarks.random_data import add_noise, random_inputs
from hub_export.export import export


def main() -> None:
    """Writes the files into the folder."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "settings.json").read_text("utf-8"))
    cases = [CASES[name] for name in settings["cases"]]
    config = albert_tf.AlbertConfig.from_dict(settings["config"])
    model = albert_tf.AlbertPretrainer(config, sentence_objective="sop")
    add_noise(model.variables)
    run = folder / "run"
    albert_tf.save(model, run, vocabulary=settings["vocabulary"])
    shutil.copy(run / "config.json", folder)
    parameters = albert_tf.parameter_count(model.config)["total"]
    write_json(folder / "facts.json", {"parameters": parameters})
    write_json(folder / "sentences.json", settings["sentences"])
    for precision in sorted({case.precision for case in cases}):
        encoder_only = settings["vocabulary"] is None
        export(run, folder / precision, encoder_only=encoder_only, dtype=precision, check=False)
    for target in ("google", "huggingface"):
        convert("run", target, run, folder / target)
    for case in cases:
        file = folder / f"expected-{case.kind}-{case.batch}x{case.length}.npy"
        if case.kind == FORWARD and not file.exists():
            inputs = random_inputs(case.batch, case.length, model.config.vocab_size)
            np.save(file, model.encoder(inputs)["pooled_output"])
        elif case.kind == TEXT and not file.exists():
            preprocessor = tf.saved_model.load(str(folder / case.precision / "preprocessor"))
            first_batch = preprocessor(tf.constant(settings["sentences"][: case.batch]))
            np.save(file, model.encoder(first_batch)["pooled_output"])


def write_json(file: Path, value: Any) -> None:
    """Writes a value as JSON."""
    file.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
