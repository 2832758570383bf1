"""Judges whether results agree with a claim, by a rule that was fixed before the training.

Both variants are trained with each seed, and their difference d is computed. The 95 % interval of the mean of
d is Student's, with n - 1 degrees of freedom for n seeds.

- A claim that a variant is better agrees if the interval is above 0, and disagrees if it is below 0.
- A claim that both are equal up to a margin m agrees if the interval lies within -m to m, and disagrees if it
  lies outside.
- In all other cases, and with fewer than two seeds, the difference is too small to tell.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scipy import stats

from benchmarks.paper.experiments import METRICS, Claim

AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "too small to tell"
CONFIDENCE = 0.95

# Metrics by variant and seed.
Results = Mapping[tuple[str, int], Mapping[str, float]]


class Verdict(NamedTuple):
    """The verdict on a claim by a metric, the difference of each seed, and the interval of their mean."""

    word: str
    differences: Sequence[float]
    low: float = -math.inf
    high: float = math.inf


def mean_interval(differences: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of paired differences; infinite for fewer than two."""
    if len(differences) < 2:
        return -math.inf, math.inf
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1)) * error
    mean = statistics.mean(differences)
    return mean - half, mean + half


def judge_interval(low: float, high: float, margin: float | None) -> str:
    """AGREES, DISAGREES or UNDECIDED, by an interval and the margin of a claim."""
    if margin is None:
        return AGREES if low > 0 else DISAGREES if high < 0 else UNDECIDED
    if -margin < low and high < margin:
        return AGREES
    return DISAGREES if low > margin or high < -margin else UNDECIDED


def judge_claim(claim: Claim, metric: str, results: Results) -> Verdict:
    """Judges a claim by a metric; seeds without results of both variants are left out."""
    sign = -1 if METRICS[metric][1] else 1

    def value(side: str | float, seed: int) -> float | None:
        return side if isinstance(side, float) else results.get((side, seed), {}).get(metric)

    differences = []
    for seed in sorted({seed for _, seed in results}):
        better, worse = value(claim.better, seed), value(claim.worse, seed)
        if better is not None and worse is not None:
            differences.append(sign * (better - worse))
    low, high = mean_interval(differences)
    return Verdict(judge_interval(low, high, claim.margin), differences, low, high)
