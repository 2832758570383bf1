"""A budget of time: the network that it is enough for, and for how many updates.

The time of an update is measured for each stage of a recipe, on the machine of the run; the number of updates
that fit in the budget is then the run's, and recipe.json keeps it, so that a resumed run measures nothing. Of
several sizes, the largest that the budget gives enough updates is taken.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence

from albert_tf.config import AlbertConfig
from albert_tf.recipes import RECIPES, PretrainingRecipe
from albert_tf.stages import Stage
from albert_tf.utils.errors import InputError

# Of the time; the rest is for tracing, checkpoints and evaluations.
TRAINING_SHARE = 0.95

# Where a recipe's warm-up is longer than that share of the updates, it is cut to it.
WARMUP_SHARE = 0.1

_LONGEST = 10 * 365 * 86400  # seconds
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Size:
    """A network, how it is trained, and from how many updates on that is worth more than a smaller one."""

    least_updates: int
    config: AlbertConfig
    recipe: PretrainingRecipe


@dataclasses.dataclass(frozen=True, kw_only=True)
class Budget:
    """The seconds that a run may take, and the sizes that it may have, from the smallest to the largest."""

    seconds: float
    sizes: tuple[Size, ...]

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= _LONGEST:
            raise InputError(f"a budget of {self.seconds:g} s is not a time above 0 and of at most ten years")
        if not self.sizes:
            raise InputError("a budget needs sizes, of which one at least is to be trained")


_SMALL = AlbertConfig(
    num_hidden_layers=1,
    hidden_size=128,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=128,
    initializer_range=0.06,  # with 0.02 it stays where it predicts frequencies
)

# What `--recipe one_machine` trains, its updates those of a budget.
ONE_MACHINE = (
    Size(
        least_updates=1,
        config=_SMALL,
        recipe=RECIPES["one_machine"].replace(
            stages=(Stage(until=0.75, seq_length=64, batch_size=32), Stage())
        ),
    ),
    Size(least_updates=10_000, config=_SMALL.replace(num_hidden_layers=2), recipe=RECIPES["one_machine"]),
    Size(
        least_updates=16_000,
        config=_SMALL.replace(
            num_hidden_layers=2, hidden_size=256, num_attention_heads=8, intermediate_size=1024
        ),
        recipe=RECIPES["one_machine"],
    ),
)


def seconds_from(text: str) -> float:
    """The seconds of a time such as 90s, 60m, 1.5h or 2d.

    Raises:
      ValueError: it is not one.
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", text)
    if not match or not float(match[1]):
        raise InputError(f"budget={text!r} is not a time: write 90s, 60m, 24h or 2d")
    return float(match[1]) * _SECONDS[match[2]]


def fitted(budget: Budget, seconds_per_update: Callable[[Size], Sequence[float]]) -> Size:
    """The size that a budget is enough for, with as many updates as it has time for.

    Args:
      budget: the time, and what may be done in it.
      seconds_per_update: what an update takes in each stage of a size, measured.
    Raises:
      ValueError: there is not time for one update of each stage.
    """
    chosen: Size | None = None
    for size in budget.sizes:
        if chosen and chosen.recipe.steps < size.least_updates:  # a larger network would get fewer yet
            break
        seconds = _mean_seconds(size.recipe.stages, seconds_per_update(size))
        steps = int(TRAINING_SHARE * budget.seconds / seconds)
        if chosen and steps < size.least_updates:
            break
        try:
            chosen = with_steps(size, steps)
        except InputError as error:  # not an update for each stage
            raise InputError(
                f"a budget of {budget.seconds:g} s is too short: an update takes {seconds:.2g} s here"
            ) from error
    assert chosen is not None
    return chosen


def with_steps(size: Size, steps: int) -> Size:
    """A size whose run has so many updates."""
    warmup = min(size.recipe.warmup_steps, int(WARMUP_SHARE * steps))
    return dataclasses.replace(size, recipe=size.recipe.replace(steps=steps, warmup_steps=warmup))


def for_its_steps(sizes: Sequence[Size]) -> Size:
    """The largest of the sizes whose own recipe has updates enough; the first where none has."""
    return next((size for size in reversed(sizes) if size.recipe.steps >= size.least_updates), sizes[0])


def as_begun(sizes: Sequence[Size], config: AlbertConfig) -> Size:
    """The size that a run was begun with.

    Args:
      sizes: of the command that resumes it.
      config: the run's.
    Returns:
      The size of that network, the largest where none has it: what differs is then seen in comparing.
    """
    same = (size for size in sizes if size.config.replace(vocab_size=config.vocab_size) == config)
    return next(same, sizes[-1])


def _mean_seconds(stages: Sequence[Stage], seconds: Sequence[float]) -> float:
    """The mean over the updates of a run."""
    ends = [0.0, *(stage.until for stage in stages)] if stages else [0.0, 1.0]
    shares = (end - begin for begin, end in itertools.pairwise(ends))
    return sum(share * each for share, each in zip(shares, seconds, strict=True))
