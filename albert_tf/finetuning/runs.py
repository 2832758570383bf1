"""Several runs in a folder, of different seeds, folds or hyper-parameters, and what they have in common.

Fine-tuning on small sets varies a lot with the seed.

Source: Lan et al. 2020, A.4, reports medians of five runs.
"""

from __future__ import annotations

import dataclasses
import statistics
import types
from collections.abc import Mapping
from typing import Any

from absl import logging

from albert_tf.checkpoints.directory import BEST_KEY, SEVERAL, SUMMARY, TASK, RunDirectory
from albert_tf.checkpoints.metrics_log import best_by, rank
from albert_tf.checkpoints.storage import entries, exists, write_json
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
    """
    check_range("runs", runs, at_least=1)
    seeds = range(settings.seed, settings.seed + runs)
    _, best = finetune_each(settings, {f"seed-{seed}": {"seed": seed} for seed in seeds}, report)
    return best


def finetune_each(
    settings: Finetuning,
    changes: Mapping[str, Mapping[str, Any]],
    report: Report = logging.info,
    further: Mapping[str, Any] = types.MappingProxyType({}),
) -> tuple[dict[str, Any], tuple[RunDirectory, Mapping[str, Records]]]:
    """Trains runs in the folder `output`, by their names there the changes of the settings.

    Returns:
      What `summary` returns and further entries, which are written to summary.json after the last run; and
        what `finetune_runs` returns.
    Raises:
      InputError: before the first one, if settings are impossible, or the folder holds other runs.
    """
    folder = RunDirectory(settings.output, "output")
    if exists(folder.file(TASK)):
        raise InputError(f"{folder} is a single run: name another --output for several")
    prefix = next(iter(changes)).partition("-")[0] + "-"
    for name in entries(folder.path):
        if name.startswith(SEVERAL) and not name.startswith(prefix):
            raise InputError(f"{folder} holds {name}: name another --output for {', '.join(changes)}")
    # All are made and looked at before the first one trains: a seed may be too large.
    each = [dataclasses.replace(settings, output=folder.file(name), **made) for name, made in changes.items()]
    for name, made in zip(changes, each, strict=True):
        check_output(run := RunDirectory(made.output))
        if run.is_begun and made.trial is not None and (there := run.recipe.get("trial")) != made.trial:
            problem = f"{name} of {folder} is of {there}, and of {made.trial} here"
            raise InputError(f"search: {problem}: search for the same values, or name another --output")
    dev = []
    for number, made in enumerate(each, start=1):
        report(f"run {number} of {len(each)}: {made.output}")
        dev.append(finetune(made, report))
    found = {**summary({name: RunDirectory(folder.file(name)) for name in changes}), **further}
    write_json(folder.file(SUMMARY), found)
    best = RunDirectory(folder.file(found["best_run"]))
    report(f"best of {len(each)} runs: {best}; {folder.file(SUMMARY)} compares them")
    return found, (best, dev[[*changes].index(found["best_run"])])


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
