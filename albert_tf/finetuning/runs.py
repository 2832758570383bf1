"""Several runs of different seeds, and what they have in common: fine-tuning on small sets varies a lot.

Source: Lan et al. 2020, A.4, reports medians of five runs.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import logging

from albert_tf.checkpoints.figures import read_figures
from albert_tf.checkpoints.run import BEST_KEY, TASK, default_step, read_task
from albert_tf.errors import InputError
from albert_tf.files import write_json
from albert_tf.finetuning.run import finetune
from albert_tf.finetuning.settings import Finetuning

SUMMARY = "summary.json"


def finetune_runs(settings: Finetuning, runs: int, report: Callable[[str], None] = logging.info) -> None:
    """Trains once for each of several seeds, or goes on where a former call stopped.

    Args:
      settings: what to do; `seed` is the first. Of each seed `output` gets a run directory `seed-<n>`, and
        after the last one summary.json.
      runs: how many.
      report: what is told of the start of each.
    Raises: as `finetune` does.
    """
    folder = Path(settings.output)
    if runs < 1:
        raise InputError(f"runs={runs} must be at least 1")
    if (folder / TASK).exists():
        raise InputError(f"{folder} is a single run: name another --output for several")
    places = {seed: folder / f"seed-{seed}" for seed in range(settings.seed, settings.seed + runs)}
    # All are made before the first one trains: a seed may be too large.
    each = [dataclasses.replace(settings, output=run, seed=seed) for seed, run in places.items()]
    for number, made in enumerate(each, start=1):
        report(f"run {number} of {runs}: {made.output}")
        finetune(made, report)
    write_json(folder / SUMMARY, summary([*places.values()]))


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
    evaluated = [run for run, found in by_run.items() if found.get(best_by) is not None]
    best_run = max(evaluated or by_run, key=lambda run: by_run[run].get(best_by) or 0.0)
    return {
        "best_by": best_by,
        "best_run": best_run,
        "median": {name: statistics.median(values) for name, values in columns.items()},
        "best": {name: by_run[best_run].get(name) for name in names},
        "spread": {name: max(values) - min(values) for name, values in columns.items()},
        "runs": by_run,
    }


def best_figures(run: Path) -> Mapping[str, float | None]:
    """The step that `load` takes of a run, and the figures of its evaluation."""
    step = default_step(run)
    lines = [line for line in read_figures(run) if line["step"] == step]
    evaluated = {name: value for line in lines for name, value in line.items() if name.startswith("eval_")}
    return {"step": step, **{name.removeprefix("eval_"): value for name, value in evaluated.items()}}
