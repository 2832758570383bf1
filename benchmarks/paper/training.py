"""Trains, evaluates and fine-tunes the variants of the experiments; resumable.

The results are a file of JSON lines: first the plan, then a line for each variant and seed. A program that
was interrupted continues after the last of them.
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras
from absl import logging

import albert_tf
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
from benchmarks.learning import run_albert_tf
from benchmarks.paper.experiments import (
    FLAGS,
    SEQ_LENGTH,
    SHARDS,
    TASKS,
    TIMED,
    VARIANTS,
    Scale,
    list_variants,
)
from benchmarks.paper.timing import time_forward_pass, time_updates_by_processes

EVAL_SHARE = 0.03
FINETUNING_RECIPE = {"learning_rate": 3e-4, "batch_size": 32, "seq_length": SEQ_LENGTH, "pooling": "mean"}
TIMED_STEPS, TIMED_LOG_EVERY = 60, 20
# For a budget: seconds of a variant besides its steps, and mean time of a step divided by the base's.
OVERHEAD_SECONDS, MEAN_COST = 60.0, 1.5


@dataclasses.dataclass(frozen=True)
class Plan:
    """The settings that all lines of a file of results share.

    Attributes:
      scale: size of networks and training.
      step_seconds: seconds of a step, for the variants that are compared at equal time.
    """

    scale: Scale
    step_seconds: dict[str, float]

    def num_steps(self, name: str) -> int:
        """The number of steps of a variant."""
        reference = VARIANTS[name].as_long_as
        if reference is None:
            return self.scale.steps
        ratio = self.step_seconds[reference] / self.step_seconds[_same_network(name)]
        return max(1, round(self.scale.steps * ratio))


def _same_network(name: str) -> str:
    """The variant with the same network that is trained for the scale's number of steps."""
    same = VARIANTS[name]._replace(as_long_as=None)
    return next(other for other, variant in VARIANTS.items() if variant == same)


class ExperimentRunner:
    """Runs the experiments in a folder, which holds the results of finished variants.

    Args:
      output: folder of vocabulary, documents, runs, and `results.jsonl`.
      text: text files, a sentence a line.
      glue: folder of SST-2, MRPC and RTE.
      tables: names of the experiments.
      seeds: seeds of each variant.
      scale: size of networks and training.
      seconds: time of all training together, which decides the number of steps; None: the scale's steps.
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
        self.variants = list_variants(tables)
        self.timed = list(TIMED) if "speed" in tables else []
        self.seconds = seconds
        self.results: dict[tuple[str, int], dict[str, float]] = {}
        output.mkdir(parents=True, exist_ok=True)
        self.file = output / "results.jsonl"
        self.plan = self._read_plan(scale) or self._create_plan(scale)

    def _timed_variants(self) -> set[str]:
        """The variants whose steps are timed, because variants are compared with them at equal time."""
        equal = [name for name in self.variants if VARIANTS[name].as_long_as]
        return {*map(_same_network, equal), *(VARIANTS[name].as_long_as or "" for name in equal)} - {""}

    def _read_plan(self, scale: Scale) -> Plan | None:
        """The stored plan, which must fit the arguments; reads the results, too. None: there is no file."""
        if not self.file.exists():
            return None
        stored = self._read_results()
        if stored["text"] != (names := self._text_names()):
            raise SystemExit(
                f"{self.file} is of the text {stored['text']}, not of {names}: name another --output"
            )
        stored_scale = {**stored["scale"], "tasks": tuple(stored["scale"].get("tasks", TASKS))}
        plan = Plan(Scale(**stored_scale), stored["paces"])
        steps = scale.steps if self.seconds is None else plan.scale.steps  # a budget's were measured
        if plan.scale != scale._replace(steps=steps):
            raise SystemExit(f"{self.file} is of another --budget: name another --output")
        if missing := self._timed_variants() - plan.step_seconds.keys():
            problem = f"{self.file} was begun with other --tables, and has no time of {min(missing)}"
            raise SystemExit(f"{problem}: name another --output")
        self._prepare(plan.scale)
        return plan

    def _read_results(self) -> dict[str, Any]:
        """Reads the results; returns the first line of the file."""
        stored, *lines = read_lines(self.file)
        for line in lines:
            self.results[line.pop("variant"), line.pop("seed")] = line
        return stored

    def _create_plan(self, scale: Scale) -> Plan:
        """Measures the time of steps, and stores a new plan."""
        self._prepare(scale)
        names = self._timed_variants() | ({"base"} if self.seconds is not None else set())
        step_seconds = self._measure_steps(sorted(names), scale)
        if self.seconds is not None:
            run_seconds = self.seconds / len(self.seeds) / max(1, len(self.variants))
            steps = round((run_seconds - OVERHEAD_SECONDS) / MEAN_COST / step_seconds["base"], -1)
            if steps < scale.batch_size:
                raise SystemExit(
                    f"{self.seconds:g} s are too few for {len(self.variants)} variants: say fewer --tables"
                )
            scale = scale._replace(steps=int(steps))
        self._add_line({"scale": scale._asdict(), "paces": step_seconds, "text": self._text_names()})
        return Plan(scale, step_seconds)

    def _text_names(self) -> list[str]:
        return [Path(name).name for name in self.text]

    def _measure_steps(self, names: Sequence[str], scale: Scale) -> dict[str, float]:
        """The seconds of a step of variants, which take turns."""
        times: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(3 if self.seconds is not None else 1):
            for name in names:
                run = self.output / "pace" / f"{list(VARIANTS).index(name)}-{turn}"
                flags = {"word_embeddings": "random", "log_every": TIMED_LOG_EVERY}
                self._pretrain(run, name, scale, TIMED_STEPS, 0, flags)
                lines = [line for line in RunDirectory(run).metrics() if "examples_per_second" in line]
                rates = [line["examples_per_second"] for line in lines[1:]]  # the first compiles
                times[name].append(scale.batch_size / statistics.median(rates))
        shutil.rmtree(self.output / "pace", ignore_errors=True)
        return {name: statistics.median(seconds) for name, seconds in times.items()}

    def train(self) -> None:
        """Trains and measures the missing variants, seeds in parallel; then measures speed, one by one.

        Such small networks keep one core busy. So each seed has a process and its share of the cores. On a
        GPU one process trains all seeds.
        """
        cores = os.cpu_count() or 1
        processes = 1 if tf.config.list_physical_devices("GPU") else min(cores, len(self.seeds))
        if processes == 1:
            for seed in self.seeds:
                self._measure_missing(self.variants, self._measure_variant, seed)
        else:
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(
                processes, context, initializer=_set_up_process, initargs=(cores // processes,)
            ) as pool:
                measure = functools.partial(self._measure_missing, self.variants, self._measure_variant)
                list(pool.map(measure, self.seeds))
            self._read_results()
        for seed in self.seeds:
            self._measure_missing(self.timed, self._measure_speed, seed)

    def _measure_missing(
        self, names: Sequence[str], measure: Callable[[str, int], dict[str, float]], seed: int
    ) -> None:
        """Measures the variants that have no line for a seed yet, and adds their lines."""
        for name in names:
            if (name, seed) not in self.results:
                start = time.monotonic()
                metrics = measure(name, seed)
                self.results[name, seed] = metrics
                seconds = round(time.monotonic() - start, 1)
                self._add_line({"variant": name, "seed": seed, **metrics, "took": seconds})

    def _add_line(self, line: dict[str, Any]) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _measure_speed(self, name: str, seed: int) -> dict[str, float]:
        """The seconds of a step or a forward pass; a seed is a round."""
        preset, processes = TIMED[name]
        layers = self.plan.scale.timed_layers
        if processes == 0:
            return {"seconds": time_forward_pass(preset, min(layers, 12))}
        layers = layers if processes == 1 else max(1, layers // 4)
        return {"seconds": statistics.median(time_updates_by_processes(preset, processes, layers))}

    def _measure_variant(self, name: str, seed: int) -> dict[str, float]:
        """Trains, evaluates and fine-tunes a variant; returns its metrics."""
        run = self._train_variant(name, seed)
        metrics: dict[str, float] = {}
        for objective in ("sop", "nsp"):
            metrics |= self._evaluate(run, objective)
        tasks = self.plan.scale.tasks
        for task in tasks:
            metrics[task] = self._finetune(run, task, seed)
        metrics["tasks"] = statistics.mean(metrics[task] for task in tasks)
        metrics["parameters"] = albert_tf.parameter_count(RunDirectory(run).config)["total"]
        metrics["steps"] = self.plan.num_steps(name)
        keras.backend.clear_session()
        gc.collect()
        return metrics

    def _train_variant(self, name: str, seed: int) -> Path:
        """The run of a variant, trained unless it is finished."""
        run = self.output / "runs" / f"{list(VARIANTS).index(name)}-{seed}"
        self._pretrain(run, name, self.plan.scale, self.plan.num_steps(name), seed, {"log_every": 0})
        return run

    def _pretrain(
        self, run: Path, name: str, scale: Scale, steps: int, seed: int, flags: dict[str, Any]
    ) -> None:
        """Runs `pretrain` or `distill`, which resume an interrupted run."""
        variant = VARIANTS[name]
        run.parent.mkdir(parents=True, exist_ok=True)
        config = run.with_name(f"{run.name}.json")
        config.write_text(variant.create_config(scale).to_json_string(), encoding="utf-8")
        folder = self.output / ("examples" if variant.text == "static" else "documents")
        files = "train-*" if variant.text == "all" else f"train-00000-of-{SHARDS:05d}*"
        flags = {
            "config": config, "output": run, "train": folder / files,
            "eval": self.output / "documents/eval-*", "vocabulary": self.vocabulary,
            "steps": steps, "warmup_steps": max(1, steps // 10), "seed": seed, "batch_size": scale.batch_size,
            "eval_every": 0, "checkpoint_every": 0, **FLAGS, **variant.flags, **flags,
        }  # fmt: skip
        if variant.text == "static":  # finished examples keep their masks: `pretrain` refuses these flags
            del flags["masked_lm_prob"], flags["max_ngram"]
        if variant.teacher is not None:
            flags["teacher"] = self._train_variant(variant.teacher, seed)
            if variant.is_random:
                flags["init_from"] = self._write_random_run(run, seed)
        run_albert_tf("pretrain" if variant.teacher is None else "distill", **flags)

    def _write_random_run(self, run: Path, seed: int) -> Path:
        """A run with random weights, for a student that begins with them; written unless it exists."""
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
        """The vocabulary of all networks, so that their losses can be compared."""
        return self.output / "spiece.model"

    def _prepare(self, scale: Scale) -> None:
        """Writes the vocabulary, the documents, the masked examples, and the tasks, unless they exist."""
        if not self.vocabulary.exists():
            run_albert_tf("vocab", input=self.text, vocab_size=scale.vocab_size, output=self.vocabulary)
        masks = {"seq_length": SEQ_LENGTH, "dupe_factor": 1}
        for name, options in (("documents", {}), ("examples", masks)):
            if not (self.output / name).exists():
                paths = {"input": self.text, "vocabulary": self.vocabulary, "output": self.output / name}
                flags = {**paths, "format": name, "eval_share": EVAL_SHARE, "shards": SHARDS, **options}
                run_albert_tf("prepare", "--dedup", **flags)
        for task in TASKS:
            for split in ("train", "dev"):
                rows = read_glue_split(task.lower(), self.glue / task, split)
                lines = format_json_lines(rows[: scale.examples])
                self._task_file(task, split).write_text(lines, encoding="utf-8")

    def _task_file(self, task: str, split: str) -> Path:
        return self.output / f"{task}-{split}.jsonl"

    def _evaluate(self, run: Path, objective: str) -> dict[str, float]:
        """Losses and accuracies on held-out text, where the sentence head is evaluated by an objective."""
        stored = RunDirectory(run)
        head = objective if stored.task["sentence_objective"] != "none" else "none"
        model = build_model(stored.config, {**stored.task, "sentence_objective": head}, stored.variables())
        evaluate = make_evaluator(model, pretraining_loss_fn(head))
        metrics = loss_metrics(evaluate(self._evaluation_dataset(objective)))
        names = [f"{objective}_accuracy"] if head != "none" else []
        names += ["mlm_loss", "mlm_accuracy"] if objective == "sop" else []
        return {name: float(metrics[name]) for name in names}

    @functools.cache  # noqa: B019  # a program has one object
    def _evaluation_dataset(self, objective: str) -> tf.data.Dataset:
        """Held-out text as examples of an objective, the same for all runs."""
        options = {name: FLAGS[name] for name in ("seq_length", "masked_lm_prob", "max_ngram")}
        return albert_tf.pretraining_dataset(
            f"{self.output}/documents/eval-*", self.vocabulary, sentence_objective=objective,
            shuffle=False, repeat=False, **options,
        ).cache()  # fmt: skip

    def _finetune(self, run: Path, task: str, seed: int) -> float:
        """Fine-tunes a run; the accuracy on the development set of a task after the last epoch."""
        settings = Finetuning(
            output=run.with_name(f"{run.name}-{task}"),
            init_from=run,
            task="classification",
            train=self._task_file(task, "train"),
            eval=self._task_file(task, "dev"),
            columns=Columns("text", None if task == "SST-2" else "pair", "label"),
            recipe={**FINETUNING_RECIPE, "epochs": self.plan.scale.epochs},
            loop={"eval_every": 0, "checkpoint_every": 0, "log_every": 0},
            seed=seed,
        )
        finetune(settings)
        accuracy = best_metrics(RunDirectory(settings.output))["accuracy"]
        shutil.rmtree(settings.output)
        if accuracy is None:
            raise InputError(f"{settings.output} has no accuracy")
        return accuracy


def _set_up_process(threads: int) -> None:
    """Sets logging and threads of a process that trains in parallel with others."""
    logging.set_verbosity(logging.WARNING)
    tf.config.threading.set_intra_op_parallelism_threads(threads)


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of results, without an unfinished last line, which is removed from the file."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    finished = [line for line in lines if line.endswith("\n")]
    if len(finished) < len(lines):
        file.write_text("".join(finished), encoding="utf-8")
    return [json.loads(line) for line in finished]


def format_json_lines(records: Iterable[Any]) -> str:
    """Labelled texts as JSON lines."""
    lines = []
    for record in records:
        assert isinstance(record, TextRecord)
        row = {"text": record.text, "pair": record.text_pair, "label": record.label}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)
