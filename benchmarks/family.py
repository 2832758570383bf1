"""ALBERT, BERT, RoBERTa and DistilBERT at equal text and time, and what the articles say of their sizes.

    python benchmarks/family.py --text reviews.txt --sst-2 glue/SST-2 --output family --minutes 3
    python benchmarks/family.py --claims

The first trains small networks of the four shapes, equally wide, each with its tokenizer, its inputs and its
objective, for as many updates as the minutes give it at its own speed; DistilBERT's shape, half as deep, also
learns from the BERT of the same seed. The speeds are measured first, in processes that take turns, with
nothing else running and from random embeddings; then training may be disturbed. All are evaluated on the same
held-out documents with masks of single words of 15 %, and fine-tuned on 2,000 examples of SST-2. What a
masked token is differs with the vocabularies, so losses are given as nats below the entropy of the tokens.
Prints Markdown: of seeds the median and the range. The folder holds the runs; started again, it goes on where
it stopped.

The second counts parameters of the published shapes, and times updates of ALBERT-large and BERT-large: on one
machine, and by two processes between which gradients travel; and forward passes of BERT-base and DistilBERT.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import learning
import smoke
import transfer

import albert_tf
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.reports import best_figures
from albert_tf.pretraining.evaluation import evaluate_run
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import Columns

VOCABULARY_SIZE = 8000
ALBERT = albert_tf.AlbertConfig(
    vocab_size=VOCABULARY_SIZE,
    embedding_size=64,
    hidden_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=64,
    initializer_range=0.06,  # with 0.02 networks so narrow stay where they predict frequencies
)
BERT = ALBERT.replace(embedding_size=ALBERT.hidden_size, sharing="none")
# Without these masks, embeddings and few layers, networks predict frequencies for hundreds of updates.
FLAGS = {
    "optimizer": "adamw",
    "learning_rate": 1e-3,
    "batch_size": 32,
    "seq_length": 64,
    "masked_lm_prob": 0.3,
    "max_ngram": 1,
    "word_embeddings": "cooccurrence",
    "eval_every": 0,
    "checkpoint_every": 0,
}
MASKS = {"seq_length": 64, "masked_lm_prob": 0.15, "max_ngram": 1}
FINE_TUNING = {"learning_rate": 3e-4, "steps": 400, "batch_size": 32, "seq_length": 64, "pooling": "mean"}
# Of the networks whose updates are timed, by the number of processes: two of 24 layers take over 24 GB.
LAYERS = {1: 24, 2: 6}
PACED_UPDATES, LOGGED, ROUNDS = 60, 10, 3


@dataclasses.dataclass(frozen=True)
class Shape:
    """A network, its kind of vocabulary, and its flags of `pretrain`."""

    config: albert_tf.AlbertConfig
    vocabulary: str
    flags: Mapping[str, Any]
    teacher: str | None = None  # the shape that it learns from, besides the text


_NO_SENTENCES = {"sentence_objective": "none"}
SHAPES = {
    "ALBERT": Shape(ALBERT, "sentencepiece", {"sentence_objective": "sop"}),
    "BERT": Shape(BERT, "wordpiece", {"sentence_objective": "nsp"}),
    "RoBERTa": Shape(
        BERT.replace(type_vocab_size=1, position_offset=2, pooler="none"),
        "byte_level_bpe",
        {**_NO_SENTENCES, "input_format": "full_sentences"},
    ),
    "DistilBERT, alone": Shape(
        BERT.replace(num_hidden_layers=1, type_vocab_size=0, pooler="none"), "wordpiece", _NO_SENTENCES
    ),
}
SHAPES["DistilBERT, of BERT"] = dataclasses.replace(SHAPES["DistilBERT, alone"], teacher="BERT")


def main() -> None:
    """Prints the tables, a row as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--claims", action="store_true", help="the published sizes, and nothing else")
    parser.add_argument("--text", nargs="+", help="text files, a sentence a line")
    parser.add_argument("--sst-2", dest="sst_2", type=Path, metavar="DIR", help="folder of its files")
    parser.add_argument("--output", type=Path, help="folder to write")
    parser.add_argument("--minutes", type=float, default=3, help="of training (3)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="(0 1 2)")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="(all)")
    parser.add_argument("--pace_only", action="store_true", help="measure the speeds, and stop")
    flags = smoke.read_flags(
        parser,
        text=smoke.text,
        **{"sst-2": smoke.sst2},
        output=smoke.folder,
        minutes=0.001,
        seeds=0,
        shapes=["BERT", "DistilBERT, of BERT"],
    )
    if flags.smoke:
        globals().update(
            VOCABULARY_SIZE=1000, PACED_UPDATES=4, LOGGED=2, ROUNDS=1, FINE_TUNING={**FINE_TUNING, "steps": 2}
        )
    if flags.claims:
        show_claims()
        return
    if not (flags.text and flags.sst_2 and flags.output):
        parser.error("--text, --sst-2 and --output name the data and the folder")
    compare(flags)


def compare(flags: argparse.Namespace) -> None:
    """Trains and fine-tunes the shapes."""
    output, kinds = flags.output, {SHAPES[name].vocabulary for name in flags.shapes}
    places = {kind: prepared(flags.text, output / kind, kind) for kind in sorted(kinds)}
    speeds = paces(output / "paces.json", flags.shapes, places)
    if flags.pace_only:
        return
    ((_, reviews), *_) = transfer.sst2(flags.sst_2)
    files = [transfer.written(output / f"{name}.jsonl", part) for name, part in reviews._asdict().items()]
    columns = "shape|parameters|ms an update|peak, GB|updates|nats below the entropy|SST-2, 2,000 examples"
    print(f"| {columns.replace('|', ' | ')} |\n{'|---' * len(columns.split('|'))}|")
    for name in flags.shapes:
        speed = speeds[name]
        steps = max(1, round(flags.minutes * 60 / speed["seconds"]))
        below, accuracies = [], []
        for seed in flags.seeds:
            run = run_of(output, name, flags.minutes, seed)
            train(run, name, places, steps=steps, seed=seed, warmup_steps=min(300, steps // 10))
            figures = evaluate_run(run, [str(places[SHAPES[name].vocabulary][1])], **MASKS)
            below.append(figures["eval_mlm_unigram_entropy"] - figures["eval_mlm_loss"])
            accuracies.append(accuracy(run, files, seed))
        parameters = albert_tf.parameter_count(SHAPES[name].config)["total"]
        cells = [name, f"{parameters:,}", f"{speed['seconds'] * 1e3:.0f}", f"{speed['peak'] / 1e9:.2f}"]
        print(f"| {' | '.join([*cells, f'{steps:,}', shown(below), shown(accuracies)])} |", flush=True)


def prepared(text: Sequence[str], folder: Path, kind: str) -> tuple[Path, Path]:
    """A vocabulary of a kind and a folder of documents, unless they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    name = {"sentencepiece": "spiece.model", "wordpiece": "vocab.txt", "byte_level_bpe": "vocabulary"}[kind]
    vocabulary, documents = folder / name, folder / "prepared"
    if not vocabulary.exists():
        words = ["--kind", kind, "--input", *text, "--vocab_size", VOCABULARY_SIZE, "--output", vocabulary]
        learning.command("vocab", *words)
    if not documents.exists():
        words = ["--input", *text, "--vocabulary", vocabulary, "--output", documents]
        learning.command("prepare", *words, "--eval_share", 0.1, "--dedup")
    return vocabulary, documents


def run_of(output: Path, name: str, minutes: float, seed: int) -> Path:
    """The run directory of a shape."""
    return output / f"{re.sub(r'[ ,]+', '-', name)}-{minutes:g}-{seed}"


def train(run: Path, name: str, places: Mapping[str, tuple[Path, Path]], **changes: Any) -> None:
    """Trains a shape, or goes on."""
    learning.command(*training_words(run, name, places, **changes))


def training_words(
    run: Path, name: str, places: Mapping[str, tuple[Path, Path]], **changes: Any
) -> list[object]:
    """The command that trains a shape."""
    shape = SHAPES[name]
    vocabulary, documents = places[shape.vocabulary]
    config = run.with_name(f"{run.name}.json")
    config.write_text(shape.config.to_json_string(), encoding="utf-8")
    flags = {"config": config, "train": documents, "vocabulary": vocabulary, "output": run}
    flags |= {**FLAGS, **shape.flags, **changes}
    first: object = "pretrain"
    if shape.teacher is not None:
        first = "distill"
        flags["word_embeddings"] = "random"  # the student's are its teacher's
        flags["teacher"] = run.with_name(run.name.replace(re.sub(r"[ ,]+", "-", name), shape.teacher))
    return [first, *(word for key, value in flags.items() for word in (f"--{key}", value))]


def paces(
    file: Path, names: Sequence[str], places: Mapping[str, tuple[Path, Path]]
) -> dict[str, dict[str, float]]:
    """The `seconds` of an update and the `peak` of memory, in bytes, of each shape; measured once.

    The shapes take turns; distillation needs a teacher, which is what BERT's turn has left.
    """
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    missing = [name for name in names if name not in known]
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in missing}
    for turn in range(ROUNDS):
        for name in missing:
            run = run_of(file.parent / "pace", name, 0, turn)
            run.parent.mkdir(exist_ok=True)
            counts = {"steps": PACED_UPDATES, "warmup_steps": 1, "log_every": LOGGED}
            flags = {**counts, "word_embeddings": "random"}
            words = [str(word) for word in training_words(run, name, places, **flags)]
            with subprocess.Popen([sys.executable, "-m", "albert_tf", *words]) as process:
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(process.returncode)
            lines = [line for line in RunDirectory(run).metrics() if "examples_per_second" in line]
            rates = [line["examples_per_second"] for line in lines[1:]]  # the first compiles
            found[name].append((FLAGS["batch_size"] / statistics.median(rates), usage.ru_maxrss * 1024))
    for name, turns in found.items():
        seconds, peaks = zip(*turns, strict=True)
        known[name] = {"seconds": statistics.median(seconds), "peak": max(peaks)}
    file.write_text(json.dumps(known, indent=2), encoding="utf-8")
    return known


def accuracy(run: Path, files: Sequence[Path], seed: int) -> float:
    """The accuracy on the second file of a run that is fine-tuned on the first."""
    settings = Finetuning(
        output=run.with_name(f"{run.name}-sst-2"),
        init_from=run,
        task="classification",
        train=files[0],
        eval=files[1],
        columns=Columns("text", None, "label"),
        recipe=FINE_TUNING,
        loop={"eval_every": 0, "checkpoint_every": 0},  # at the end: no step is chosen
        seed=seed,
    )
    finetune(settings)
    return best_figures(RunDirectory(settings.output))["accuracy"] or 0.0


def shown(values: Sequence[float]) -> str:
    """The median and the range."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def show_claims() -> None:
    """Prints what the articles say beside what is counted and measured here."""
    count = {
        name: albert_tf.parameter_count(albert_tf.PRESETS[name])["total"]
        for name in ("albert_large_v2", "bert_large_uncased", "bert_base_uncased", "distilbert_base_uncased")
    }
    albert, bert, base, distil = count.values()
    print("| claim | here |\n|---|---|")
    fewer = f"{bert:,} / {albert:,} = {bert / albert:.1f}"
    print(f"| ALBERT-large has 18 × fewer parameters than BERT-large | {fewer} |")
    print(f"| DistilBERT is 40 % smaller than BERT-base | {distil:,} / {base:,}: {1 - distil / base:.1%} |")
    for hosts in (1, 2):
        times = {"albert_large_v2": list[float](), "bert_large": list[float]()}
        for _ in range(2):
            for preset, seconds in times.items():
                seconds += update_seconds(preset, hosts, LAYERS[hosts])
        albert_time, bert_time = (statistics.median(seconds) for seconds in times.values())
        where = f"{LAYERS[hosts]} layers, {'one process' if hosts == 1 else 'two, whose gradients travel'}"
        figures = f"{bert_time:.2f} s / {albert_time:.2f} s = {bert_time / albert_time:.2f}"
        print(
            f"| ALBERT-large trains 1.7 × as fast as BERT-large: an update of 4 × 128, {where} | {figures} |"
        )
    base_time, distil_time = forward_seconds(["bert_base_uncased", "distilbert_base_uncased"])
    figures = f"{base_time * 1e3:.0f} ms / {distil_time * 1e3:.0f} ms = {base_time / distil_time:.2f}"
    print(f"| DistilBERT is 60 % faster than BERT-base: a forward pass of 8 × 128 | {figures} |")


def update_seconds(preset: str, hosts: int, layers: int) -> list[float]:
    """The seconds of some updates of four rows of 128 tokens, divided among processes."""
    sharing = albert_tf.PRESETS[preset].sharing
    words = ["--preset", preset, "--sharing", sharing, "--batch_size", str(4 // hosts), "--way", "plain"]
    words += ["--layers", str(layers)]
    command = [sys.executable, str(Path(__file__).with_name("update.py")), *words]
    workers = [f"127.0.0.1:{free_port()}" for _ in range(hosts)]
    processes = []
    for index in range(hosts):
        cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, **({"TF_CONFIG": json.dumps(cluster)} if hosts > 1 else {})}
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{preset} by {hosts} processes failed")
    return json.loads(outputs[0])["seconds"]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def forward_seconds(presets: Sequence[str], rounds: int = 10) -> list[float]:
    """The seconds of a forward pass of 8 × 128 of each, which take turns: the medians."""
    import tensorflow as tf

    ids = tf.random.uniform([8, 128], 1000, 30000, tf.int32, seed=1)
    inputs = {"input_word_ids": ids, "input_mask": tf.ones_like(ids)}
    encoders = [albert_tf.AlbertEncoder(albert_tf.PRESETS[name]) for name in presets]
    passes = [
        tf.function(lambda x, e=encoder: e(x, training=False)["sequence_output"]) for encoder in encoders
    ]
    seconds: list[list[float]] = [[] for _ in passes]
    for turn in range(rounds + 2):
        for function, times in zip(passes, seconds, strict=True):
            started = time.perf_counter()
            function(inputs).numpy()
            if turn >= 2:
                times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in seconds]


if __name__ == "__main__":
    main()
