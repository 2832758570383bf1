"""Several runs of different seeds, and what they have in common: fine-tuning on small sets varies a lot.

Source: Lan et al. 2020, A.4, reports medians of five runs.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from absl import logging

from albert_tf.checkpoints.figures import rank
from albert_tf.checkpoints.run import BEST_KEY, TASK, read_task
from albert_tf.errors import InputError
from albert_tf.files import read_json, write_json
from albert_tf.finetuning.reports import best_figures
from albert_tf.finetuning.run import check_output, finetune
from albert_tf.finetuning.settings import Finetuning

SUMMARY = "summary.json"


def finetune_runs(settings: Finetuning, runs: int, report: Callable[[str], None] = logging.info) -> Path:
    """Trains once for each of several seeds, or goes on where a former call stopped.

    Args:
      settings: what to do; `seed` is the first. Of each seed `output` gets a run directory `seed-<n>`, and
        after the last one summary.json.
      runs: how many.
      report: what is told of each, and of the best.
    Returns:
      The best run.
    Raises: as `finetune` does.
    """
    folder = Path(settings.output)
    if runs < 1:
        raise InputError(f"runs={runs} must be at least 1")
    if (folder / TASK).exists():
        raise InputError(f"{folder} is a single run: name another --output for several")
    places = {seed: folder / f"seed-{seed}" for seed in range(settings.seed, settings.seed + runs)}
    # All are made and looked at before the first one trains: a seed may be too large.
    each = [dataclasses.replace(settings, output=run, seed=seed) for seed, run in places.items()]
    for run in places.values():
        check_output(run)
    for number, made in enumerate(each, start=1):
        report(f"run {number} of {runs}: {made.output}")
        finetune(made, report)
    found = summary([*places.values()])
    write_json(folder / SUMMARY, found)
    report(f"best of {runs} runs: {folder / found['best_run']}; {folder / SUMMARY} compares them")
    return folder / found["best_run"]


def summary(runs: Sequence[Path]) -> dict[str, Any]:
    """What summary.json says: figures of each run's best step, their median and spread, and the best run's.

    Args:
      runs: directories of fine-tuned runs of one task; each has been evaluated.
    """
    best_by = read_task(runs[0])[BEST_KEY].removeprefix("eval_")
    by_run = {run.name: best_figures(run) for run in runs}
    names = [name for name in next(iter(by_run.values())) if name != "step"]
    columns = {
        name: [value for found in by_run.values() if (value := found.get(name)) is not None] for name in names
    }
    columns = {name: values for name, values in columns.items() if values}
    ranks = {
        run: rank(value, found.get("loss"))
        for run, found in by_run.items()
        if (value := found.get(best_by)) is not None
    }
    best_run = max(ranks, key=ranks.__getitem__, default=next(iter(by_run)))
    return {
        "best_by": best_by,
        "best_run": best_run,
        "median": {name: statistics.median(values) for name, values in columns.items()},
        "best": {name: by_run[best_run].get(name) for name in names},
        "spread": {name: max(values) - min(values) for name, values in columns.items()},
        "runs": by_run,
    }


def best_run(folder: Path) -> Path:
    """The best run in a folder that fine-tuning with several seeds has made; any other folder is itself.

    Raises:
      InputError: not all seeds are trained yet, or summary.json names no run that is there.
    """
    if (folder / TASK).exists() or not any(folder.glob("seed-*")):
        return folder
    if not (folder / SUMMARY).exists():
        raise InputError(
            f"{folder} has no {SUMMARY}, which says which of its runs is the best: let `albert-tf finetune` "
            "finish, or name one of them"
        )
    name = read_json(folder / SUMMARY).get("best_run")
    if not isinstance(name, str) or not (folder / name / TASK).exists():
        raise InputError(f"{folder / SUMMARY}: best_run={name!r} is no run there: name one of them")
    return folder / name
