"""Ways to faster and smaller models, on SST-2 from text: accuracy, agreement, time, disk and memory.

    python -m benchmarks.lite --data SST-2 --vocabulary 30k-clean.model
    python -m benchmarks.lite --data SST-2 --run run --exits run-with-exits --shallow run-of-6-layers

Prints Markdown for a fine-tuned run, or for albert_base's shape with random weights, whose accuracy means
nothing and whose exits end every text after --exit_layers. The same network runs in transformers by the
Python of --huggingface, if it exists (benchmarks/peers/requirements-huggingface.txt). The rows have a process
each, one after the other. Agreement is with the first row. Memory is the growth of the process from before
the model is loaded to after its last answer.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.markdown_tables import print_row
from benchmarks.random_data import add_noise
from benchmarks.timers import run_module

ROOT = Path(__file__).resolve().parents[1]
BATCHES = (1, 32)
LABELS = ["0", "1"]
Answer = Callable[[list[str]], Sequence[str]]

# Rows of our exported models: their folder, and arguments of `pipeline`.
OURS: dict[str, tuple[str, dict[str, Any]]] = {
    "float32, unpadded": ("float32/serving", {}),
    "bfloat16": ("bfloat16/serving", {}),
    "fewer layers": ("shallow-float32/serving", {}),
    "early exit": ("exits", {}),
}
PADDED = "float32, padded"
HUGGINGFACE = ("PyTorch", "PyTorch, compiled", "PyTorch, dynamic int8", "PyTorch, DistilBERT's shape")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, help="GLUE's folder of SST-2")
    add("--vocabulary", type=Path, help="SentencePiece model for random weights")
    add("--run", type=Path, help="fine-tuned for sst-2 (random weights)")
    add("--exits", type=Path, help="the same with early_exit")
    add("--shallow", type=Path, help="the same with fewer layers (half of the run's, not trained further)")
    add("--config", help="config of the random weights, a JSON file (albert_base_v2)")
    add("--patience", type=int, default=3, help="patience of the exits (3)")
    add(
        "--exit_layers",
        type=int,
        default=6,
        help="layers before the exit of each text, with random weights (6)",
    )
    add("--texts", type=int, default=872, help="number of sentences of dev.tsv (872)")
    add(
        "--huggingface",
        type=Path,
        default=ROOT / ".venv-peers/huggingface/bin/python",
        help="Python with transformers",
    )
    add("--measure", nargs=2, metavar=("ROW", "FOLDER"), help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.measure:
        row, folder = flags.measure
        print(json.dumps(measure_row(row, Path(folder))))
        return
    if flags.data is None or (flags.run is None) == (flags.vocabulary is None):
        parser.error("name --data, and either --run or --vocabulary")
    with tempfile.TemporaryDirectory() as folder:
        rows = write_inputs(flags, Path(folder))
        print_table(rows, flags.huggingface, Path(folder))


def write_inputs(flags: argparse.Namespace, folder: Path) -> list[str]:
    """Writes runs, exports and texts; returns the rows that can be measured."""
    from albert_tf.conversion.convert import convert
    from albert_tf.runs.run_directory import RunDirectory
    from hub_export.export import export

    runs = {"run": flags.run, "exits": flags.exits, "shallow": flags.shallow}
    if flags.run is None:
        runs |= write_random(flags, folder)
    elif flags.shallow is None:
        runs["shallow"] = write_shallow(flags.run, folder / "shallow")
    for name in ("run", "exits"):
        if runs[name] is not None and not (folder / name).exists():
            (folder / name).symlink_to(runs[name].resolve())
    for dtype in ("float32", "bfloat16"):
        export(runs["run"], folder / dtype, dtype=dtype, check=False)
    export(runs["shallow"], folder / "shallow-float32", check=False)
    with (flags.data / "dev.tsv").open(encoding="utf-8", newline="") as file:
        examples = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[: flags.texts]
    columns = {"texts": [row["sentence"] for row in examples], "labels": [row["label"] for row in examples]}
    (folder / "about.json").write_text(json.dumps({**columns, "patience": flags.patience}))
    rows = [PADDED, *OURS]
    if runs["exits"] is None:
        rows.remove("early exit")
    if not flags.huggingface.exists():
        print(f"No rows of PyTorch: there is no {flags.huggingface}.\n")
        return rows
    convert("run", "huggingface", RunDirectory(runs["run"]).path, folder / "huggingface")
    return [*rows, *HUGGINGFACE]


def write_random(flags: argparse.Namespace, folder: Path) -> dict[str, Path]:
    """Writes runs of random weights: plain, with exits at --exit_layers, and with half of the layers."""
    import albert_tf
    from albert_tf.config import AlbertConfig
    from albert_tf.text.tokenizer import open_tokenizer

    task = {"task": "sst-2", "labels": LABELS, "seq_length": 128}
    config = (
        AlbertConfig.from_json_file(flags.config) if flags.config else albert_tf.PRESETS["albert_base_v2"]
    )
    config = config.replace(vocab_size=len(open_tokenizer(flags.vocabulary).vocabulary))
    for name in ("run", "exits"):
        model = albert_tf.AlbertClassifier(config, num_labels=2, early_exit=name == "exits")
        add_noise(model.encoder.variables)
        if model.exits is not None:
            # The labels of the layers alternate, until `patience` layers in a row have the same label.
            layers = np.arange(1, config.num_hidden_layers)
            labels = np.maximum(flags.exit_layers - flags.patience - layers, 0) % 2
            model.exits.output_weights.assign(0 * model.exits.output_weights)
            model.exits.output_bias.assign(np.eye(2)[labels])
        albert_tf.save(model, folder / name, flags.vocabulary, task=task)
    shallow = write_shallow(folder / "run", folder / "shallow")
    return {"run": folder / "run", "exits": folder / "exits", "shallow": shallow}


def write_shallow(run: Path, output: Path) -> Path:
    """Writes a run with the weights of another one and half of its layers."""
    import albert_tf
    from albert_tf.runs.build_model import build_model
    from albert_tf.runs.run_directory import best_run
    from albert_tf.runs.warm_start import warm_start_from

    origin = best_run(run)
    config = origin.config.replace(num_hidden_layers=-(-origin.config.num_hidden_layers // 2))
    model = build_model(config, origin.task, warm_start_from(origin, config, origin.task).read)
    albert_tf.save(model, output, origin.vocabulary, tokenizer=origin.tokenizer, task=origin.task)
    return output


def print_table(rows: Sequence[str], huggingface: Path, folder: Path) -> None:
    """Measures each row and prints it."""
    labels, first = json.loads((folder / "about.json").read_text())["labels"], None
    times = " | ".join(f"ms a text, {size} at a time" for size in BATCHES)
    print(f"| | accuracy | agreement | {times} | MB, disk | MB, memory |\n|{'---|' * (5 + len(BATCHES))}")
    for row in rows:
        python = huggingface if row in HUGGINGFACE else sys.executable
        flags = ["--measure", row, folder]
        result = run_module("benchmarks.lite", *flags, python=python, cwd=ROOT)
        first = first or result["answers"]
        shares = (np.mean(np.equal(result["answers"], expected)) for expected in (labels, first))
        print_row(row, *(f"{share:.3f}" for share in shares), *(f"{x:.1f}" for x in result["numbers"]))


def measure_row(row: str, folder: Path) -> dict[str, Any]:
    """The answers; milliseconds per text by batch size, and megabytes on disk and in memory."""
    about = json.loads((folder / "about.json").read_text())
    load = load_huggingface if row in HUGGINGFACE else load_ours
    answer, before, files = load(row, folder, about)
    texts, answers, numbers = about["texts"], [], []
    for size in BATCHES:
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        for batch in batches[:3]:
            answer(batch)
        seconds, answers = [], []
        for batch in batches:
            start = time.perf_counter()
            answers += answer(batch)
            seconds.append((time.perf_counter() - start) / len(batch))
        numbers.append(1000 * statistics.median(seconds))
    size = sum(file.stat().st_size for file in files.rglob("*") if file.is_file())
    return {"answers": answers, "numbers": [*numbers, size / 1e6, private_megabytes() - before]}


def load_ours(row: str, folder: Path, about: Mapping[str, Any]) -> tuple[Answer, float, Path]:
    """A function from texts to labels, the memory before it was loaded, and the folder of its files."""
    import tensorflow as tf

    import albert_tf.text.tokenizer  # registers the ops of TF Text

    tf.function(lambda x: tf.nn.gelu(x))(tf.ones([2, 2]))  # allocates the memory of TensorFlow itself
    before = private_megabytes()
    if row != PADDED:
        name, arguments = OURS[row]
        patience = {"patience": about["patience"]} if name == "exits" else {}
        answer = albert_tf.pipeline(folder / name, batch_size=max(BATCHES), **arguments, **patience)
        files = folder / name
        return lambda texts: [prediction["label"] for prediction in answer(texts)], before, files
    prepare = tf.saved_model.load(str(folder / "float32/preprocessor"))
    model = tf.saved_model.load(str(folder / "float32/serving/1"))

    def answer_padded(texts: list[str]) -> Sequence[str]:
        logits = model.signatures["head"](**prepare(tf.constant(texts)))["logits"]
        return [LABELS[number] for number in np.argmax(logits, axis=1)]

    return answer_padded, before, folder / "float32/serving"


def load_huggingface(row: str, folder: Path, about: Mapping[str, Any]) -> tuple[Answer, float, Path]:
    """Like `load_ours`, for transformers on PyTorch with our tokens, in the environment of transformers."""
    import torch
    import transformers

    from examples.runtimes.tokens import ConvertedTokenizer

    torch.set_num_threads(os.cpu_count() or 1)
    before, tokenizer = private_megabytes(), ConvertedTokenizer(folder / "float32/serving/1/assets")
    network = folder / "huggingface"
    if row.endswith("shape"):
        config = transformers.DistilBertConfig(vocab_size=tokenizer.pieces.get_piece_size(), num_labels=2)
        model = transformers.DistilBertForSequenceClassification(config)
        model.save_pretrained(network := folder / "distilbert")
    else:
        model = transformers.AlbertForSequenceClassification.from_pretrained(network)
    model = model.eval()
    if row.endswith("int8"):
        model = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
        (network := folder / "int8-state").mkdir(exist_ok=True)
        torch.save(model.state_dict(), network / "state.pt")
    if row.endswith("compiled"):
        model = torch.compile(model, dynamic=True)

    def answer(texts: list[str]) -> Sequence[str]:
        inputs = tokenizer(texts)
        ids, mask = (torch.from_numpy(inputs[name]).long() for name in ("input_word_ids", "input_mask"))
        with torch.inference_mode():
            return [LABELS[number] for number in model(input_ids=ids, attention_mask=mask).logits.argmax(1)]

    return answer, before, network


def private_megabytes() -> float:
    """The memory that no other process shares, in megabytes (Linux)."""
    gc.collect()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous")) / 1e3


if __name__ == "__main__":
    main()
