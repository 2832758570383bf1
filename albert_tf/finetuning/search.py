"""Search for hyper-parameters: a run for each combination of some values, or for some of them at random."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from absl import logging

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.finetuning.recipes import FinetuningRecipe
from albert_tf.finetuning.runs import finetune_each
from albert_tf.finetuning.settings import Finetuning
from albert_tf.tasks.datasets.formats import Records
from albert_tf.training.trainer import Report
from albert_tf.utils.checks import check_choice, check_range
from albert_tf.utils.errors import InputError
from albert_tf.utils.records import flat_fields


def finetune_search(
    settings: Finetuning,
    search: Mapping[str, Sequence[Any]],
    trials: int | None = None,
    report: Report = logging.info,
) -> tuple[RunDirectory, Mapping[str, Records]]:
    """Trains once for each combination, or goes on where a former call stopped; returns as `finetune_runs`.

    Of each combination `output` gets a run directory `trial-<n>`, and after the last one summary.json, whose
    `settings` say which is which.

    Args:
      settings: of all runs.
      search: values to try, by the fields of FinetuningRecipe.
      trials: combinations to try, which the seed draws, the first ones of more the same; None: all, in order.
      report: called with lines, those of a table at the end.
    Raises:
      InputError: a combination is impossible, or a value given twice; or as `finetune`, like all others.
    """
    names = [field.name for _, field in flat_fields(FinetuningRecipe)]
    for name, values in search.items():
        check_choice("search", name, names)
        if name in settings.recipe:
            raise InputError(f"{name}: it is given and searched for, name it once")
        if not values or any(value in values[:number] for number, value in enumerate(values)):
            raise InputError(f"search: {name}={list(values)} must be values that differ")
    combinations = [dict(zip(search, values, strict=True)) for values in itertools.product(*search.values())]
    if trials is not None:
        check_range("trials", trials, at_least=1)
        order = np.random.default_rng(settings.seed).permutation(len(combinations))
        combinations = [combinations[number] for number in order[:trials]]
    each = {
        f"trial-{number}": {"recipe": {**settings.recipe, **chosen}, "trial": chosen}
        for number, chosen in enumerate(combinations, start=1)
    }
    settings_of = dict(zip(each, combinations, strict=True))
    found, best = finetune_each(settings, each, report, {"settings": settings_of})
    rows = [["trial", *search, found["best_by"]]]
    for name, chosen in settings_of.items():
        value = found["runs"][name].get(found["best_by"])
        rows.append([name, *map(str, chosen.values()), "none" if value is None else f"{value:.4g}"])
    for line in _aligned(rows):
        report(line)
    report(f"{found['best_run']} is the best by {found['best_by']}; of equals the lower loss, then the first")
    return best


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of rows of cells, in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
