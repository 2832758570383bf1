"""Several runs in a folder, of different seeds, and what they have in common.

Fine-tuning on small sets varies a lot with the seed.

Source: Lan et al. 2020, A.4, reports medians of five runs.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping
from typing import Any

from absl import logging

from albert_tf.checkpoints.directory import BEST_KEY, SEED, SUMMARY, TASK, RunDirectory
from albert_tf.checkpoints.metrics_log import best_by, rank
from albert_tf.checkpoints.storage import exists, write_json
from albert_tf.finetuning.reports import best_figures
from albert_tf.finetuning.run import check_output, finetune
from albert_tf.finetuning.settings import Finetuning
from albert_tf.tasks.datasets.formats import Records
from albert_tf.training.trainer import Report
from albert_tf.utils.checks import check_range
from albert_tf.utils.errors import InputError


def finetune_runs(
    settings: Finetuning, runs: int, report: Report = logging.info
) -> tuple[RunDirectory, Mapping[str, Records]]:
    """Trains once for each of several seeds, or goes on where a former call stopped.

    The settings are those of all, and their `seed` is the first. Of each seed `output` gets a run directory
    `seed-<n>`, and after the last one summary.json.

    Returns:
      The best run, and the records to evaluate on, as `finetune` has them.
    Raises:
      InputError: before the first one, if settings are impossible, or the folder is a run itself.
    """
    check_range("runs", runs, at_least=1)
    folder = RunDirectory(settings.output, "output")
    if exists(folder.file(TASK)):
        raise InputError(f"{folder} is a single run: name another --output for several")
    # All are made and looked at before the first one trains: a seed may be too large.
    each = {
        f"{SEED}{seed}": dataclasses.replace(settings, seed=seed, output=folder.file(f"{SEED}{seed}"))
        for seed in range(settings.seed, settings.seed + runs)
    }
    for made in each.values():
        check_output(RunDirectory(made.output))
    dev = {}
    for number, (name, made) in enumerate(each.items(), start=1):
        report(f"run {number} of {runs}: {made.output}")
        dev[name] = finetune(made, report)
    found = summary({name: RunDirectory(made.output) for name, made in each.items()})
    write_json(folder.file(SUMMARY), found)
    best = RunDirectory(folder.file(found["best_run"]))
    report(f"best of {runs} runs: {best}; {folder.file(SUMMARY)} compares them")
    return best, dev[found["best_run"]]


def summary(runs: Mapping[str, RunDirectory]) -> dict[str, Any]:
    """The content of summary.json: metrics of the best steps of runs by name, mean, median and spread."""
    order = best_by(next(iter(runs.values())).task[BEST_KEY])
    metric, sign = order.metric.removeprefix("eval_"), 1 if order.is_highest else -1
    by_run = {name: best_figures(run) for name, run in runs.items()}
    known: dict[str, list[float]] = {}
    for found in by_run.values():
        for name, value in found.items():
            if name != "step" and value is not None:
                known.setdefault(name, []).append(value)
    ranks = {
        name: rank(sign * value, found.get("loss"))
        for name, found in by_run.items()
        if (value := found.get(metric)) is not None
    }
    best_run = max(ranks, key=ranks.__getitem__, default=next(iter(by_run)))
    return {
        "best_by": metric,
        "best_run": best_run,
        "mean": {name: statistics.fmean(values) for name, values in known.items()},
        "median": {name: statistics.median(values) for name, values in known.items()},
        "best": {name: value for name, value in by_run[best_run].items() if name != "step"},
        "spread": {name: max(values) - min(values) for name, values in known.items()},
        "runs": by_run,
    }
