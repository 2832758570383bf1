"""Trains the variants of the experiments, asks them all questions and fine-tunes them; resumable.

What is known stands in a file of JSON lines: the plan first, and then a line for each variant and seed. A run
that was cut short goes on after the last of them.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import gc
import json
import multiprocessing
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras
from absl import logging

import albert_tf
from albert_tf import cli
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.finetuning.reports import best_metrics
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.runs.build_model import build_model
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.glue import read_glue_split
from albert_tf.training.metrics_logger import loss_metrics, make_evaluator
from benchmarks.paper.experiments import (
    FLAGS,
    PARTS,
    SEQ_LENGTH,
    TASKS,
    TIMED,
    VARIANTS,
    Scale,
    variants_of,
)
from benchmarks.paper.timing import forward_seconds, update_seconds

EVAL_SHARE = 0.03
FINE_TUNING = {"learning_rate": 3e-4, "batch_size": 32, "seq_length": SEQ_LENGTH, "pooling": "mean"}
PACED_STEPS, PACED_LOG = 60, 20
# Of a budget: what a variant needs besides its steps, and how long its steps take, times the base's.
OVERHEAD_SECONDS, MEAN_COST = 60.0, 1.5


@dataclasses.dataclass(frozen=True)
class Plan:
    """What all lines of a file of results have in common.

    Attributes:
      scale: of networks and training.
      paces: seconds of a step of variants that are trained for equal time.
    """

    scale: Scale
    paces: dict[str, float]

    def steps_of(self, name: str) -> int:
        """The steps of a variant."""
        other = VARIANTS[name].as_long_as
        if other is None:
            return self.scale.steps
        return max(1, round(self.scale.steps * self.paces[other] / self.paces[_paced(name)]))


def _paced(name: str) -> str:
    """The variant whose steps take as long, and which is trained for the common number of steps."""
    alike = VARIANTS[name]._replace(as_long_as=None)
    return next(other for other, variant in VARIANTS.items() if variant == alike)


class Laboratory:
    """A folder of runs, and the results of those that are finished.

    Args:
      output: folder of vocabulary, documents, runs, and `results.jsonl`.
      text: text files, a sentence a line.
      glue: folder of SST-2, MRPC and RTE.
      tables: names of the experiments.
      seeds: of everything.
      scale: of networks and training.
      seconds: of all training together, which decide the steps; None: those of the scale.
    """

    def __init__(
        self,
        output: Path,
        text: Sequence[str],
        glue: Path,
        tables: Sequence[str],
        seeds: Sequence[int],
        scale: Scale,
        seconds: float | None = None,
    ):
        self.output, self.text, self.glue, self.seeds = output, text, glue, seeds
        self.variants = variants_of(tables)
        self.timed = list(TIMED) if "speed" in tables else []
        self.seconds = seconds
        self.results: dict[tuple[str, int], dict[str, float]] = {}
        output.mkdir(parents=True, exist_ok=True)
        self.file = output / "results.jsonl"
        self.plan = self._stored_plan(scale) or self._new_plan(scale)

    def _paced_names(self) -> set[str]:
        """The variants whose steps are timed, since others train as long as they do."""
        equal = [name for name in self.variants if VARIANTS[name].as_long_as]
        return {*map(_paced, equal), *(VARIANTS[name].as_long_as or "" for name in equal)} - {""}

    def _stored_plan(self, scale: Scale) -> Plan | None:
        """The plan that the results were begun with, and its lines."""
        if not self.file.exists():
            return None
        stored = self._read_results()
        if stored["text"] != (names := self._names_of_text()):
            raise SystemExit(
                f"{self.file} is of the text {stored['text']}, not of {names}: name another --output"
            )
        scale_of = {**stored["scale"], "tasks": tuple(stored["scale"].get("tasks", TASKS))}
        plan = Plan(Scale(**scale_of), stored["paces"])
        steps = scale.steps if self.seconds is None else plan.scale.steps  # a budget's were measured
        if plan.scale != scale._replace(steps=steps):
            raise SystemExit(f"{self.file} is of another --budget: name another --output")
        if missing := self._paced_names() - plan.paces.keys():
            problem = f"{self.file} was begun with other --tables, and has no pace of {min(missing)}"
            raise SystemExit(f"{problem}: name another --output")
        self._prepare(plan.scale)
        return plan

    def _read_results(self) -> dict[str, Any]:
        """Reads what is known; returns the first line."""
        stored, *lines = read_lines(self.file)
        for line in lines:
            self.results[line.pop("variant"), line.pop("seed")] = line
        return stored

    def _new_plan(self, scale: Scale) -> Plan:
        """A plan, by the measured time of steps."""
        self._prepare(scale)
        names = self._paced_names() | ({"base"} if self.seconds is not None else set())
        paces = self._measure_paces(sorted(names), scale)
        if self.seconds is not None:
            each = self.seconds / len(self.seeds) / max(1, len(self.variants))
            steps = round((each - OVERHEAD_SECONDS) / MEAN_COST / paces["base"], -1)
            if steps < scale.batch_size:
                raise SystemExit(
                    f"{self.seconds:g} s are too few for {len(self.variants)} variants: say fewer --tables"
                )
            scale = scale._replace(steps=int(steps))
        self._add({"scale": scale._asdict(), "paces": paces, "text": self._names_of_text()})
        return Plan(scale, paces)

    def _names_of_text(self) -> list[str]:
        return [Path(name).name for name in self.text]

    def _measure_paces(self, names: Sequence[str], scale: Scale) -> dict[str, float]:
        """The seconds of a step of variants, which take turns."""
        found: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(3 if self.seconds is not None else 1):
            for name in names:
                run = self.output / "pace" / f"{list(VARIANTS).index(name)}-{turn}"
                flags = {"word_embeddings": "random", "log_every": PACED_LOG}
                self._pretrain(run, name, scale, PACED_STEPS, 0, flags)
                lines = [line for line in RunDirectory(run).metrics() if "examples_per_second" in line]
                rates = [line["examples_per_second"] for line in lines[1:]]  # the first compiles
                found[name].append(scale.batch_size / statistics.median(rates))
        shutil.rmtree(self.output / "pace", ignore_errors=True)
        return {name: statistics.median(seconds) for name, seconds in found.items()}

    def train(self) -> None:
        """Trains and measures what is not known yet, seeds side by side; then measures speed alone.

        Networks so small keep one core busy. So each seed has a process and its share of the cores, but all
        have one process on a GPU.
        """
        cores = os.cpu_count() or 1
        processes = 1 if tf.config.list_physical_devices("GPU") else min(cores, len(self.seeds))
        if processes == 1:
            for seed in self.seeds:
                self._work(self.variants, self._measure, seed)
        else:
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(
                processes, context, initializer=_begin_process, initargs=(cores // processes,)
            ) as pool:
                work = functools.partial(self._work, self.variants, self._measure)
                list(pool.map(work, self.seeds))
            self._read_results()
        for seed in self.seeds:
            self._work(self.timed, self._time, seed)

    def _work(self, names: Sequence[str], measure: Callable[[str, int], dict[str, float]], seed: int) -> None:
        """Adds the lines of a seed that are not known yet; variants take turns."""
        for name in names:
            if (name, seed) not in self.results:
                started = time.monotonic()
                metrics = measure(name, seed)
                self.results[name, seed] = metrics
                took = {"took": round(time.monotonic() - started, 1)}
                self._add({"variant": name, "seed": seed, **metrics, **took})

    def _add(self, line: dict[str, Any]) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _time(self, name: str, seed: int) -> dict[str, float]:
        """The seconds of a step or a forward pass; a seed is a round."""
        preset, processes = TIMED[name]
        layers = self.plan.scale.timed_layers
        if processes == 0:
            return {"seconds": forward_seconds(preset, min(layers, 12))}
        seconds = update_seconds(preset, processes, layers if processes == 1 else max(1, layers // 4))
        return {"seconds": statistics.median(seconds)}

    def _measure(self, name: str, seed: int) -> dict[str, float]:
        """The figures of a variant."""
        run = self._trained(name, seed)
        metrics: dict[str, float] = {}
        for asked in ("sop", "nsp"):
            metrics |= self._asked(run, asked)
        tasks = self.plan.scale.tasks
        for task in tasks:
            metrics[task] = self._fine_tuned(run, task, seed)
        metrics["tasks"] = statistics.mean(metrics[task] for task in tasks)
        metrics["parameters"] = albert_tf.parameter_count(RunDirectory(run).config)["total"]
        metrics["steps"] = self.plan.steps_of(name)
        keras.backend.clear_session()
        gc.collect()
        return metrics

    def _trained(self, name: str, seed: int) -> Path:
        """The run of a variant, trained unless it is there."""
        run = self.output / "runs" / f"{list(VARIANTS).index(name)}-{seed}"
        self._pretrain(run, name, self.plan.scale, self.plan.steps_of(name), seed, {"log_every": 0})
        return run

    def _pretrain(
        self, run: Path, name: str, scale: Scale, steps: int, seed: int, flags: dict[str, Any]
    ) -> None:
        """`pretrain` or `distill`, as a user types it; it resumes a run that was cut short."""
        variant = VARIANTS[name]
        run.parent.mkdir(parents=True, exist_ok=True)
        config = run.with_name(f"{run.name}.json")
        config.write_text(variant.config_of(scale).to_json_string(), encoding="utf-8")
        folder = self.output / ("examples" if variant.text == "static" else "documents")
        files = "train-*" if variant.text == "all" else f"train-00000-of-{PARTS:05d}*"
        flags = {
            "config": config, "output": run, "train": folder / files,
            "eval": self.output / "documents/eval-*", "vocabulary": self.vocabulary,
            "steps": steps, "warmup_steps": max(1, steps // 10), "seed": seed, "batch_size": scale.batch_size,
            "eval_every": 0, "checkpoint_every": 0, **FLAGS, **variant.flags, **flags,
        }  # fmt: skip
        if variant.teacher is not None:
            flags["teacher"] = self._trained(variant.teacher, seed)
            if variant.is_random:
                flags["init_from"] = self._random_run(run, seed)
        command("pretrain" if variant.teacher is None else "distill", flags)

    def _random_run(self, run: Path, seed: int) -> Path:
        """A run of random weights, for a student that begins with them."""
        path = run.with_name(f"{run.name}-random")
        if not path.exists():
            keras.utils.set_random_seed(seed)
            config = albert_tf.AlbertConfig.from_json_file(run.with_name(f"{run.name}.json"))
            albert_tf.save(
                albert_tf.AlbertPretrainer(config, sentence_objective="none"), path, self.vocabulary
            )
        return path

    @property
    def vocabulary(self) -> Path:
        """Of all networks, so that their losses compare."""
        return self.output / "spiece.model"

    def _prepare(self, scale: Scale) -> None:
        """The vocabulary, the documents, the documents with masks, and the tasks, unless they are there."""
        if not self.vocabulary.exists():
            command("vocab", {"input": self.text, "vocab_size": scale.vocab_size, "output": self.vocabulary})
        stored = {"seq_length": SEQ_LENGTH, "dupe_factor": 1}
        for form, options in (("documents", {}), ("examples", stored)):
            if not (self.output / form).exists():
                places = {"input": self.text, "vocabulary": self.vocabulary, "output": self.output / form}
                command(
                    "prepare",
                    {**places, "format": form, "eval_share": EVAL_SHARE, "shards": PARTS, **options},
                    "--dedup",
                )
        for task in TASKS:
            for part in ("train", "dev"):
                rows = read_glue_split(task.lower(), self.glue / task, part)
                self._task_file(task, part).write_text(json_lines(rows[: scale.examples]), encoding="utf-8")

    def _task_file(self, task: str, part: str) -> Path:
        return self.output / f"{task}-{part}.jsonl"

    def _asked(self, run: Path, asked: str) -> dict[str, float]:
        """Losses and accuracies on held-out text; the sentence head answers the objective `asked`."""
        stored = RunDirectory(run)
        objective = stored.task["sentence_objective"]
        asked_of = asked if objective != "none" else "none"
        model = build_model(
            stored.config, {**stored.task, "sentence_objective": asked_of}, stored.variables()
        )
        found = loss_metrics(make_evaluator(model, pretraining_loss_fn(asked_of))(self._questions(asked)))
        names = [f"{asked}_accuracy"] if asked_of != "none" else []
        names += ["mlm_loss", "mlm_accuracy"] if asked == "sop" else []
        return {name: float(found[name]) for name in names}

    @functools.cache  # noqa: B019  # of the one object of a program
    def _questions(self, asked: str) -> tf.data.Dataset:
        """Held-out text as examples of an objective, the same for all runs."""
        options = {name: FLAGS[name] for name in ("seq_length", "masked_lm_prob", "max_ngram")}
        return albert_tf.pretraining_dataset(
            f"{self.output}/documents/eval-*", self.vocabulary, sentence_objective=asked,
            shuffle=False, repeat=False, **options,
        ).cache()  # fmt: skip

    def _fine_tuned(self, run: Path, task: str, seed: int) -> float:
        """The accuracy on the development set of a task, after its last epoch."""
        settings = Finetuning(
            output=run.with_name(f"{run.name}-{task}"),
            init_from=run,
            task="classification",
            train=self._task_file(task, "train"),
            eval=self._task_file(task, "dev"),
            columns=Columns("text", None if task == "SST-2" else "pair", "label"),
            recipe={**FINE_TUNING, "epochs": self.plan.scale.epochs},
            loop={"eval_every": 0, "checkpoint_every": 0, "log_every": 0},
            seed=seed,
        )
        finetune(settings)
        accuracy = best_metrics(RunDirectory(settings.output))["accuracy"]
        shutil.rmtree(settings.output)
        if accuracy is None:
            raise InputError(f"{settings.output} has no accuracy")
        return accuracy


def _begin_process(threads: int) -> None:
    """Settings of a process that trains beside others."""
    logging.set_verbosity(logging.WARNING)
    tf.config.threading.set_intra_op_parallelism_threads(threads)


def command(name: str, flags: dict[str, Any], *words: str) -> None:
    """Runs a command of the product, and stops where it fails."""
    typed = [name, *words]
    for flag, value in flags.items():
        values = value if isinstance(value, (list, tuple)) else [value]
        typed += [f"--{flag}", *map(str, values)]
    if status := cli.run(typed):
        raise SystemExit(status)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; one that was cut short is dropped."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    if len(whole) < len(lines):
        file.write_text("".join(whole), encoding="utf-8")
    return [json.loads(line) for line in whole]


def json_lines(records: Iterable[Any]) -> str:
    """Labelled texts as JSON lines."""

    def rows() -> Iterator[dict[str, Any]]:
        for record in records:
            assert isinstance(record, TextRecord)
            yield {"text": record.text, "pair": record.text_pair, "label": record.label}

    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
