"""The same fine-tuning by Hugging Face's transformers on PyTorch and by this package: figures, time, memory.

    python -m benchmarks.finetuning --run minilm --glue glue --imdb imdb --squad squad --output finetuning

Of each task and seed both begin with the same weights, those of the head too, see the same batches in the
same order, and have the same schedule, dropout, clipping and AdamW with bias correction; `uncorrected` is
ours without it, as Google's code has it. Their losses on the first batch, without dropout, must agree within
1e-4. What PyTorch has trained is converted back, so that the same code tells its figures on the dev set.
Times are those of an epoch and of evaluating the dev set, each the last of a process in which it is repeated;
the first answer is that of a new process. Each run leaves a JSON file; started again, it goes on where it
stopped. Prints Markdown: of the seeds the mean and the range, and the mean difference from ours.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import tf_keras as keras

import albert_tf
from albert_tf.constants import (
    ENCODER_INPUTS,
    END_POSITIONS,
    EXAMPLE_NUMBERS,
    LABELS,
    START_POSITIONS,
    WEIGHTS,
)
from albert_tf.conversion.convert import convert
from albert_tf.finetuning.data import PreparedRun, prepare_run
from albert_tf.finetuning.finetune import finetune, initial_values
from albert_tf.finetuning.finetuned_model import PredictedSets, create_predict_fn, load_finetuned
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import RunDirectory, read_metrics
from albert_tf.tasks.batches import task_batches
from albert_tf.tasks.columns import Columns
from albert_tf.training.compute_settings import ComputeConfig
from benchmarks import smoke, transfer

OURS, UNCORRECTED, EAGER, COMPILED = "ours", "uncorrected", "eager", "compiled"
PYTORCH = Path(__file__).resolve().parents[1] / ".venv-interop/bin/python"
PROGRAM = Path(__file__).with_name("finetuning_pytorch.py")
SENTENCE = "The film is a joy from its first minute to its last."


class Task(NamedTuple):
    """What is learned, and the figure that tells how well."""

    metric: str
    data: Callable[[argparse.Namespace], dict[str, Any]]  # arguments of `Finetuning`
    recipe: Mapping[str, Any] = MappingProxyType({})  # that differs from the flags'


def glue(name: str, folder: str) -> Callable[[argparse.Namespace], dict[str, Any]]:
    """A task of GLUE, of which at most so many examples are learned."""

    def arguments(flags: argparse.Namespace) -> dict[str, Any]:
        there, some = flags.glue / folder, flags.output / "data" / folder
        some.mkdir(parents=True, exist_ok=True)
        for file in there.glob("*.*"):
            lines = file.read_text("utf-8").splitlines(keepends=True)
            if file.stem == "train":
                lines = [lines[0], *transfer.some(lines[1:], flags.rows)]
            (some / file.name).write_text("".join(lines), "utf-8")
        return {"task": name, "data": some}

    return arguments


def reviews(flags: argparse.Namespace) -> dict[str, Any]:
    """Reviews of films, of which half as many are learned."""
    (_, data), folder = next(transfer.imdb(flags.imdb, flags.rows // 2)), flags.output / "data"
    train = transfer.written(folder / "imdb-train.jsonl", data.train)
    test = transfer.written(folder / "imdb-test.jsonl", data.test)
    return {"task": "classification", "train": train, "eval": test, "columns": Columns("text", None, "label")}


def questions(flags: argparse.Namespace) -> dict[str, Any]:
    """The head of SQuAD's training data; asked are XQuAD's English questions, a part of the dev set."""
    files = {"train": flags.squad / "train-v1.1.head.json", "eval": flags.squad / "xquad.en.json"}
    return {"task": "squad-v1.1", **files}


TASKS = {
    "sst-2": Task("accuracy", glue("sst-2", "SST-2")),
    "mrpc": Task("f1", glue("mrpc", "MRPC")),
    "rte": Task("accuracy", glue("rte", "RTE")),
    "sts-b": Task("spearman", glue("sts-b", "STS-B")),
    "imdb": Task("accuracy", reviews, {"seq_length": 128}),
    "imdb-head_tail": Task("accuracy", reviews, {"seq_length": 128, "long": "head_tail"}),
    "imdb-windows": Task("accuracy", reviews, {"seq_length": 128, "long": "windows"}),
    "squad": Task("f1", questions, {"seq_length": 384, "epochs": 1}),
}


class Job(NamedTuple):
    """One task with one seed."""

    name: str
    settings: Finetuning
    folder: Path


def main() -> None:
    """Prints a table a task, as soon as its figures are known."""
    parser = smoke.create_parser(__doc__)
    parser.add_argument("--run", type=Path, required=True, help="run of a BERT or ALBERT with its vocabulary")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("--glue", type=Path, help="folder of GLUE's tasks")
    parser.add_argument("--imdb", type=Path, help="folder of IMDB")
    parser.add_argument("--squad", type=Path, help="folder with train-v1.1.head.json and xquad.en.json")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="(all)")
    systems = (OURS, UNCORRECTED, EAGER, COMPILED)
    parser.add_argument("--systems", nargs="+", choices=systems, default=systems, help="(all)")
    parser.add_argument(
        "--pytorch", type=Path, default=PYTORCH, help="Python with transformers (%(default)s)"
    )
    parser.add_argument("--rows", type=int, default=6000, help="examples to learn at most (6000)")
    parser.add_argument("--epochs", type=int, default=3, help="(3)")
    parser.add_argument("--batch_size", type=int, default=32, help="(32)")
    parser.add_argument("--seq_length", type=int, default=64, help="tokens (64)")
    parser.add_argument("--learning_rate", type=float, default=5e-5, help="(5e-5)")
    parser.add_argument("--seeds", type=int, default=3, help="(3)")
    flags = smoke.read_flags(
        parser, run=smoke.pretrained_run, output=smoke.output_folder, glue=lambda: smoke.sst2().parent,
        tasks="sst-2", systems=(OURS, EAGER), rows=16, epochs=2, batch_size=8, seq_length=16, seeds=1,
    )  # fmt: skip
    for name in flags.tasks:
        results = [
            {system: result(flags, job, system) for system in flags.systems} for job in jobs(flags, name)
        ]
        print_table(name, results)


def jobs(flags: argparse.Namespace, name: str) -> Iterator[Job]:
    """A task's runs, a seed each."""
    task = TASKS[name]
    data = task.data(flags)
    recipe = {key: getattr(flags, key) for key in ("epochs", "batch_size", "seq_length", "learning_rate")}
    recipe |= {"dropout": 0.1, **task.recipe}
    for seed in range(flags.seeds):
        folder = flags.output / name / f"seed-{seed}"
        once = {"eval_every": 10**9, "checkpoint_every": 10**9}  # at the end
        settings = Finetuning(
            output=folder / OURS, init_from=flags.run, recipe=recipe, seed=seed, loop=once, **data
        )
        yield Job(name, settings, folder)


def result(flags: argparse.Namespace, job: Job, system: str) -> dict[str, Any]:
    """What a system took and reached; made where its file is not there yet."""
    file = job.folder / f"{system}.json"
    if not file.exists():
        print(f"{job.name}, seed {job.settings.seed}: {system}", file=sys.stderr, flush=True)
        if not (job.folder / "begun.json").exists():
            apart(begin, job)
        found = apart(ours, job, system) if system in (OURS, UNCORRECTED) else pytorch(flags, job, system)
        file.write_text(json.dumps(found, indent=1))
    return json.loads(file.read_text())


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a new process."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def prepared_run(job: Job, settings: Finetuning) -> PreparedRun:
    """The data of a job, encoded."""
    with settings.open_start(RunDirectory(job.folder / "none")) as start:
        return prepare_run(RunDirectory(job.folder / "none"), settings, start)


def begin(job: Job) -> None:
    """Writes what both begin with: weights as a run and for transformers, and batches in their order."""
    settings = job.settings
    with settings.open_start(RunDirectory(job.folder / "none")) as start:
        prepared = prepare_run(RunDirectory(job.folder / "none"), settings, start)
        recipe, data, contents = prepared
        assert recipe.steps is not None
        read = initial_values(settings.init_from, start.run, prepared, lambda line: None)
        keras.utils.set_random_seed(settings.seed)
        model = build_model(contents.config, contents.task, read=read)
        options = {"tokenizer": contents.tokenizer, "task": contents.task}
        albert_tf.save(model, job.folder / "start", contents.vocabulary, **options)
    convert("run", "huggingface", job.folder / "start", job.folder / "start-huggingface")
    batches = data.training_batches(recipe, ComputeConfig(), settings.seed).dataset
    train = list(batches.take(recipe.steps))
    (examples,) = data.dev.values()
    length = data.task.seq_length
    dev = list(task_batches(examples.rows, length, recipe.batch_size, shuffle=False, repeat=False))
    for name, part in (("train", train), ("dev", dev)):
        arrays = {f"{n}/{key}": value for n, batch in enumerate(part) for key, value in kept(batch).items()}
        np.savez(job.folder / f"{name}.npz", **arrays)
    terms = data.task.loss_fn().terms(model({x: train[0][x] for x in ENCODER_INPUTS}), train[0])
    known = ("learning_rate", "steps", "warmup_steps", "weight_decay", "beta_1", "beta_2", "epsilon")
    begun = {
        **{name: getattr(recipe, name) for name in (*known, "clip_norm")},
        "batches_per_epoch": prepared.batches_per_epoch,
        "first_loss": sum(float(term.loss / term.weight) for term in terms.values()),
        "seed": settings.seed,
    }
    (job.folder / "begun.json").write_text(json.dumps(begun, indent=1))


def kept(batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inputs and labels of the examples that are there."""
    is_there = batch[EXAMPLE_NUMBERS].numpy() >= 0
    names = {*ENCODER_INPUTS, LABELS, START_POSITIONS, END_POSITIONS, WEIGHTS} & batch.keys()
    return {name: batch[name].numpy()[is_there] for name in names}


def ours(job: Job, system: str) -> dict[str, Any]:
    """Trains, evaluates twice and answers."""
    run = RunDirectory(job.folder / system)
    prepared = prepared_run(job, job.settings)
    begun = time.perf_counter()
    loop = {**job.settings.loop, "log_every": prepared.batches_per_epoch}
    recipe = {**job.settings.recipe, "bias_correction": system == OURS}
    start = {"init_from": job.folder / "start", "output": run.path}
    finetune(dataclasses.replace(job.settings, **start, loop=loop, recipe=recipe))
    seconds = time.perf_counter() - begun
    rates = [line["examples_per_second"] for line in read_metrics(run) if "examples_per_second" in line]
    return {
        **figures(job, prepared, load_finetuned(run).model),
        "epoch": len(prepared.data.rows) / rates[-1],
        "training": seconds,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "answer": answer(Path(sys.executable), f"import albert_tf; albert_tf.pipeline({str(run)!r})", job),
    }


def figures(job: Job, prepared: PreparedRun, model: Any) -> dict[str, float]:
    """The task's metrics of a model on its dev set, and the seconds that they take the second time."""
    data, rows = prepared.data, prepared.recipe.batch_size
    predict = create_predict_fn(data.task, model, rows, data.task.has_evaluation_loss)
    for _ in range(2):
        begun = time.perf_counter()
        found = {name: predict(examples) for name, examples in data.dev.items()}
        seconds = time.perf_counter() - begun
    predicted = PredictedSets(data.spec, data.task, data.sets.dev, found)
    metrics = {**predicted.mean_loss(), **predicted.metrics()}
    return {"metric": metrics[TASKS[job.name].metric], "loss": metrics["loss"], "evaluation": seconds}


def pytorch(flags: argparse.Namespace, job: Job, system: str) -> dict[str, Any]:
    """The same by transformers; an error if the losses of the first batch differ."""
    output = job.folder / system
    output.mkdir(exist_ok=True)
    begun = json.loads((job.folder / "begun.json").read_text())
    words = [flags.pytorch, PROGRAM, job.folder, output, *(["--compile"] if system == COMPILED else [])]
    done = subprocess.run(words, env=offline(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-3000:])
    found = json.loads(done.stdout.splitlines()[-1])
    if abs(found["first_loss"] - begun["first_loss"]) > 1e-4:
        raise SystemExit(f"{job.folder}: first loss {found['first_loss']}, ours {begun['first_loss']}")
    trained = output / "huggingface"
    code = f"from transformers import pipeline; pipeline('text-classification', {str(trained)!r})"
    found["answer"] = answer(flags.pytorch, code, job)
    return {**found, **apart(converted_figures, job, trained), "evaluation": found["evaluation"]}


def converted_figures(job: Job, trained: Path) -> dict[str, float]:
    """The figures of a model that transformers has trained."""
    convert("huggingface", "run", trained, trained.with_name("run"))
    return figures(job, prepared_run(job, job.settings), albert_tf.load(trained.with_name("run")))


def answer(python: Path, code: str, job: Job) -> float | None:
    """The seconds of a new process that answers one text, the median of three; None of other inputs."""
    if job.name in ("mrpc", "rte", "sts-b", "squad"):
        return None
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        subprocess.run(
            [python, "-c", f"{code}({SENTENCE!r})"], check=True, capture_output=True, env=offline()
        )
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds)


def offline() -> dict[str, str]:
    """The environment of processes that download nothing."""
    return {**os.environ, "HF_HUB_OFFLINE": "1"}


COLUMNS = ("training", "epoch", "evaluation", "answer")


def print_table(name: str, results: list[dict[str, dict[str, Any]]]) -> None:
    """A task's figures; of times the medians of the seeds, and ours as a part of theirs."""
    metric = TASKS[name].metric
    head = [name, f"{metric} (range)", "less than ours", *(f"{x} (s)" for x in COLUMNS), "peak (GB)"]
    print(f"\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for system in results[0]:
        reached = [result[system]["metric"] for result in results]
        less = [result[OURS]["metric"] - result[system]["metric"] for result in results if OURS in result]
        cells = [system, f"{statistics.mean(reached):.3f} ({min(reached):.3f} to {max(reached):.3f})"]
        cells.append("" if system == OURS or not less else f"{statistics.mean(less):+.3f}")
        for column in COLUMNS:
            seconds = [result[system][column] for result in results]
            if None in seconds:
                cells.append("")
                continue
            cell = f"{statistics.median(seconds):.1f}"
            if system != OURS and less:
                ratios = [result[OURS][column] / result[system][column] for result in results]
                cell += f" (ours {statistics.median(ratios):.2f} of it)"
            cells.append(cell)
        cells.append(f"{max(result[system]['peak'] for result in results) / 1e9:.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
