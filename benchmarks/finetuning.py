"""Compares fine-tuning by this package and by transformers on PyTorch: metrics, time, memory.

    python -m benchmarks.finetuning --run minilm --glue glue --imdb imdb --squad squad --output finetuning

For each task and seed both begin with the same weights, also of the head, see the same batches in the same
order, and have the same schedule, dropout, clipping and AdamW with bias correction; `uncorrected` is ours
without bias correction, as in Google's code. Their losses on the first batch, without dropout, must agree
within 1e-4. PyTorch's models are converted back, so that the same code computes their metrics on the dev set.
An epoch and the evaluation of the dev set are repeated in a process, and the last one counts; a new process
gives the first answer. Each run writes a JSON file; started again, the program continues where it stopped.
Prints Markdown: mean and range of the seeds, and the mean difference from ours.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import json
import multiprocessing
import os
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
from benchmarks.markdown_tables import format_range, print_header, print_row
from benchmarks.memory import max_resident_bytes
from benchmarks.timers import time_call, time_process

OURS, UNCORRECTED, EAGER, COMPILED = "ours", "uncorrected", "eager", "compiled"
PYTORCH = Path(__file__).resolve().parents[1] / ".venv-interop/bin/python"
PROGRAM = Path(__file__).with_name("finetuning_pytorch.py")
SETUP_FILE = "setup.json"  # settings for finetuning_pytorch.py
SENTENCE = "The film is a joy from its first minute to its last."


class BenchmarkTask(NamedTuple):
    """A task of the benchmark.

    Attributes:
      metric: name of the compared metric.
      data: writes the task's data; returns arguments of `Finetuning`.
      recipe: hyper-parameters in place of the flags'.
    """

    metric: str
    data: Callable[[argparse.Namespace], dict[str, Any]]
    recipe: Mapping[str, Any] = MappingProxyType({})


def glue_task(name: str, folder: str) -> Callable[[argparse.Namespace], dict[str, Any]]:
    """A GLUE task with a sample of its training data, as `BenchmarkTask.data`."""

    def write_sample(flags: argparse.Namespace) -> dict[str, Any]:
        sample = flags.output / "data" / folder
        sample.mkdir(parents=True, exist_ok=True)
        for file in (flags.glue / folder).glob("*.*"):
            lines = file.read_text("utf-8").splitlines(keepends=True)
            if file.stem == "train":
                lines = [lines[0], *transfer.sample_examples(lines[1:], flags.rows)]
            (sample / file.name).write_text("".join(lines), "utf-8")
        return {"task": name, "data": sample}

    return write_sample


def write_reviews(flags: argparse.Namespace) -> dict[str, Any]:
    """Film reviews, with half of the other tasks' number of training examples."""
    data, folder = transfer.read_imdb(flags.imdb, flags.rows // 2), flags.output / "data"
    train = transfer.write_example_lines(folder / "imdb-train.jsonl", data.train)
    test = transfer.write_example_lines(folder / "imdb-test.jsonl", data.test)
    return {"task": "classification", "train": train, "eval": test, "columns": Columns("text", None, "label")}


def list_squad_files(flags: argparse.Namespace) -> dict[str, Any]:
    """The head of SQuAD's training data, and XQuAD's English questions, which are in SQuAD's dev set."""
    files = {"train": flags.squad / "train-v1.1.head.json", "eval": flags.squad / "xquad.en.json"}
    return {"task": "squad-v1.1", **files}


TASKS = {
    "sst-2": BenchmarkTask("accuracy", glue_task("sst-2", "SST-2")),
    "mrpc": BenchmarkTask("f1", glue_task("mrpc", "MRPC")),
    "rte": BenchmarkTask("accuracy", glue_task("rte", "RTE")),
    "sts-b": BenchmarkTask("spearman", glue_task("sts-b", "STS-B")),
    "imdb": BenchmarkTask("accuracy", write_reviews, {"seq_length": 128}),
    "imdb-head_tail": BenchmarkTask("accuracy", write_reviews, {"seq_length": 128, "long": "head_tail"}),
    "imdb-windows": BenchmarkTask("accuracy", write_reviews, {"seq_length": 128, "long": "windows"}),
    "squad": BenchmarkTask("f1", list_squad_files, {"seq_length": 384, "epochs": 1}),
}


class Job(NamedTuple):
    """One task with one seed."""

    name: str
    settings: Finetuning
    folder: Path


def main() -> None:
    """Prints a table for each task."""
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
    parser.add_argument("--rows", type=int, default=6000, help="largest number of training examples (6000)")
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
            {system: read_or_measure(flags, job, system) for system in flags.systems}
            for job in create_jobs(flags, name)
        ]
        print_table(name, results)


def create_jobs(flags: argparse.Namespace, name: str) -> Iterator[Job]:
    """A job of a task for each seed."""
    task = TASKS[name]
    data = task.data(flags)
    recipe = {key: getattr(flags, key) for key in ("epochs", "batch_size", "seq_length", "learning_rate")}
    recipe |= {"dropout": 0.1, **task.recipe}
    for seed in range(flags.seeds):
        folder = flags.output / name / f"seed-{seed}"
        loop = {"eval_every": 10**9, "checkpoint_every": 10**9}  # once, at the end
        settings = Finetuning(
            output=folder / OURS, init_from=flags.run, recipe=recipe, seed=seed, loop=loop, **data
        )
        yield Job(name, settings, folder)


def read_or_measure(flags: argparse.Namespace, job: Job, system: str) -> dict[str, Any]:
    """The measurements of a system, from its file if that exists."""
    file = job.folder / f"{system}.json"
    if not file.exists():
        print(f"{job.name}, seed {job.settings.seed}: {system}", file=sys.stderr, flush=True)
        if not (job.folder / SETUP_FILE).exists():
            run_in_process(write_shared_inputs, job)
        if system in (OURS, UNCORRECTED):
            results = run_in_process(measure_ours, job, system)
        else:
            results = measure_pytorch(flags, job, system)
        file.write_text(json.dumps(results, indent=1))
    return json.loads(file.read_text())


def run_in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a new process; returns its result."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments).result()


def prepare_job(job: Job) -> PreparedRun:
    """The recipe and the encoded data of a job."""
    settings = job.settings
    with settings.open_start(RunDirectory(job.folder / "none")) as start:
        return prepare_run(RunDirectory(job.folder / "none"), settings, start)


def write_shared_inputs(job: Job) -> None:
    """Writes the inputs of all systems: weights as a run and for transformers, and batches in their order."""
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
    for name, batches in (("train", train), ("dev", dev)):
        examples = enumerate(map(real_examples, batches))
        arrays = {f"{number}/{key}": array for number, batch in examples for key, array in batch.items()}
        np.savez(job.folder / f"{name}.npz", **arrays)
    terms = data.task.loss_fn().terms(model({x: train[0][x] for x in ENCODER_INPUTS}), train[0])
    names = ("learning_rate", "steps", "warmup_steps", "weight_decay", "beta_1", "beta_2", "epsilon")
    setup = {
        **{name: getattr(recipe, name) for name in (*names, "clip_norm")},
        "batches_per_epoch": prepared.batches_per_epoch,
        "first_loss": sum(float(term.loss / term.weight) for term in terms.values()),
        "seed": settings.seed,
    }
    (job.folder / SETUP_FILE).write_text(json.dumps(setup, indent=1))


def real_examples(batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inputs and labels of a batch, without the rows that fill it."""
    is_real = batch[EXAMPLE_NUMBERS].numpy() >= 0
    names = {*ENCODER_INPUTS, LABELS, START_POSITIONS, END_POSITIONS, WEIGHTS} & batch.keys()
    return {name: batch[name].numpy()[is_real] for name in names}


def measure_ours(job: Job, system: str) -> dict[str, Any]:
    """Measures this package: trains, evaluates, and answers a text."""
    run = RunDirectory(job.folder / system)
    prepared = prepare_job(job)
    loop = {**job.settings.loop, "log_every": prepared.batches_per_epoch}
    recipe = {**job.settings.recipe, "bias_correction": system == OURS}
    paths = {"init_from": job.folder / "start", "output": run.path}
    settings = dataclasses.replace(job.settings, **paths, loop=loop, recipe=recipe)
    seconds = time_call(lambda: finetune(settings))
    rates = [line["examples_per_second"] for line in read_metrics(run) if "examples_per_second" in line]
    return {
        **evaluate_model(job, prepared, load_finetuned(run).model),
        "epoch": len(prepared.data.rows) / rates[-1],
        "training": seconds,
        "peak": max_resident_bytes(),
        "answer": time_prediction_process(
            Path(sys.executable), f"import albert_tf; albert_tf.pipeline({str(run)!r})", job
        ),
    }


def evaluate_model(job: Job, prepared: PreparedRun, model: Any) -> dict[str, float]:
    """The metric and the loss of a model on the dev set, and the seconds of a second evaluation."""
    data, rows = prepared.data, prepared.recipe.batch_size
    predict = create_predict_fn(data.task, model, rows, data.task.has_evaluation_loss)
    for _ in range(2):
        start = time.perf_counter()
        outputs = {name: predict(examples) for name, examples in data.dev.items()}
        seconds = time.perf_counter() - start
    predicted = PredictedSets(data.spec, data.task, data.sets.dev, outputs)
    metrics = {**predicted.mean_loss(), **predicted.metrics()}
    return {"metric": metrics[TASKS[job.name].metric], "loss": metrics["loss"], "evaluation": seconds}


def measure_pytorch(flags: argparse.Namespace, job: Job, system: str) -> dict[str, Any]:
    """Measures transformers; exits with an error if the losses of the first batch differ from ours."""
    output = job.folder / system
    output.mkdir(exist_ok=True)
    setup = json.loads((job.folder / SETUP_FILE).read_text())
    command = [flags.pytorch, PROGRAM, job.folder, output, *(["--compile"] if system == COMPILED else [])]
    process = subprocess.run(command, env=offline_environment(), capture_output=True, text=True, check=False)
    if process.returncode:
        raise SystemExit(process.stderr[-3000:])
    results = json.loads(process.stdout.splitlines()[-1])
    if abs(results["first_loss"] - setup["first_loss"]) > 1e-4:
        raise SystemExit(f"{job.folder}: first loss {results['first_loss']}, ours {setup['first_loss']}")
    model = output / "huggingface"
    code = f"from transformers import pipeline; pipeline('text-classification', {str(model)!r})"
    results["answer"] = time_prediction_process(flags.pytorch, code, job)
    metrics = run_in_process(evaluate_huggingface, job, model)
    return {**results, **metrics, "evaluation": results["evaluation"]}


def evaluate_huggingface(job: Job, model: Path) -> dict[str, float]:
    """Converts a model of transformers to a run, and evaluates it."""
    run = model.with_name("run")
    convert("huggingface", "run", model, run)
    return evaluate_model(job, prepare_job(job), albert_tf.load(run))


def time_prediction_process(python: Path, code: str, job: Job) -> float | None:
    """The median seconds of three processes that answer one text; None for tasks of several texts."""
    if job.name in ("mrpc", "rte", "sts-b", "squad"):
        return None
    command = [python, "-c", f"{code}({SENTENCE!r})"]
    return statistics.median(time_process(command, check=True, env=offline_environment()) for _ in range(3))


def offline_environment() -> dict[str, str]:
    """The environment variables of processes that download nothing."""
    return {**os.environ, "HF_HUB_OFFLINE": "1"}


def print_table(name: str, results: list[dict[str, dict[str, Any]]]) -> None:
    """Prints the metric of each system, median times, and the ratio of our times to the system's."""
    columns = ("training", "epoch", "evaluation", "answer")
    print()
    titles = (f"{TASKS[name].metric} (range)", "less than ours", *(f"{column} (s)" for column in columns))
    print_header(name, *titles, "peak (GB)")
    for system in results[0]:
        metrics = [result[system]["metric"] for result in results]
        gaps = [result[OURS]["metric"] - result[system]["metric"] for result in results if OURS in result]
        is_compared = system != OURS and bool(gaps)
        print_row(
            system,
            format_range(metrics, average=statistics.mean),
            f"{statistics.mean(gaps):+.3f}" if is_compared else "",
            *(format_seconds(results, system, column, is_compared) for column in columns),
            f"{max(result[system]['peak'] for result in results) / 1e9:.2f}",
        )


def format_seconds(
    results: list[dict[str, dict[str, Any]]], system: str, column: str, is_compared: bool
) -> str:
    """The median seconds of a system, with the ratio of our seconds to them if they are compared."""
    seconds = [result[system][column] for result in results]
    if None in seconds:
        return ""
    cell = f"{statistics.median(seconds):.1f}"
    if not is_compared:
        return cell
    ratios = [result[OURS][column] / result[system][column] for result in results]
    return f"{cell} (ours {statistics.median(ratios):.2f} of it)"


if __name__ == "__main__":
    main()
