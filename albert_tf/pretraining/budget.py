"""A budget of time: the network that it is enough for, and for how many steps."""

from __future__ import annotations

import dataclasses
import itertools
import re
import statistics
import time
from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.constants import pretraining_spec
from albert_tf.errors import InputError, check_range
from albert_tf.optimization import create_optimizer
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.recipes import PRETRAINING_RECIPES, PretrainingRecipe, Stage
from albert_tf.runs.build_model import build_model
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings
from albert_tf.training.distribution import DistributedBatches, hosts_of
from albert_tf.training.stages import Training, TrainingStage, build_optimizer, is_fused, model_options
from albert_tf.training.trainer import LogLine


def examples_per_second(
    config: AlbertConfig, rows: int, seq_length: int, predictions: int, execution: ComputeConfig
) -> float:
    """Examples that a device of this machine trains on in a second, in batches of so many rows, by LAMB.

    The batch is one of equal tokens without padding; what is computed of it takes as long as of text.
    """
    task = {"model": "pretrainer", "sentence_objective": "none" if config.pooler == "none" else "sop"}
    model = build_model(config, task, **model_options(execution))
    optimizer = create_optimizer("lamb", init_lr=0.0, num_train_steps=1)
    spec = pretraining_spec(rows, seq_length, predictions, task["sentence_objective"])
    batch = {name: tf.ones(part.shape, part.dtype) for name, part in spec.items()}
    batches = DistributedBatches(tf.data.Dataset.from_tensors(batch).repeat(), None)
    phase = TrainingStage(
        end=1, batch_size=rows, seq_length=seq_length, batches=lambda seed: batches, evaluate=dict
    )
    training = Training(
        model=model,
        optimizer=build_optimizer(optimizer, model, execution),
        objective=pretraining_loss_fn(task["sentence_objective"], fused=is_fused(execution)),
        phases=[phase],
        seed=0,
        execution=execution,
        loop=LoopSettings(),
    )
    return rows / seconds_per_update(training)[0]


# Of the time; the rest is for tracing, checkpoints and evaluations.
TRAINING_SHARE = 0.95

# What of a phase is timed: after updates that trace and fill the input pipeline, so many, or for so long.
FIRST_UPDATES, UPDATES, MAX_SECONDS = 2, 20, 10

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # in seconds


def warmup_of(recipe: PretrainingRecipe, steps: int) -> int:
    """Updates of warm-up in so many: the recipe's, but a tenth of them at most."""
    return min(recipe.warmup_steps, steps // 10)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSize:
    """A network, how it is trained, and from how many updates on that is worth more than a smaller one."""

    least_updates: int = 1
    config: AlbertConfig
    recipe: PretrainingRecipe

    def with_steps(self, steps: int) -> ModelSize:
        """The same for so many updates."""
        recipe = self.recipe.replace(steps=steps, warmup_steps=warmup_of(self.recipe, steps))
        return dataclasses.replace(self, recipe=recipe)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeBudget:
    """The seconds that a run may take, and the sizes that it may have, from the smallest to the largest."""

    seconds: float
    sizes: Sequence[ModelSize]

    def __post_init__(self) -> None:
        check_range("budget", self.seconds, above=0, at_most=10 * 365 * 86400)


_SMALL = AlbertConfig(
    num_hidden_layers=1,
    hidden_size=128,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=128,
    initializer_range=0.06,  # with 0.02 it stays where it predicts frequencies
)

_DEEP = _SMALL.replace(num_hidden_layers=2)
_WIDE = _DEEP.replace(hidden_size=256, num_attention_heads=8, intermediate_size=1024)
_STAGED = PRETRAINING_RECIPES["one_machine"]
_FLAT = _STAGED.replace(stages=(Stage(until=0.75, seq_length=64, batch_size=32), Stage()))

# What `--recipe one_machine` trains, its updates those of a budget, from the smallest to the largest.
ONE_MACHINE: Sequence[ModelSize] = (
    ModelSize(config=_SMALL, recipe=_FLAT),
    ModelSize(least_updates=10_000, config=_DEEP, recipe=_STAGED),
    ModelSize(least_updates=16_000, config=_WIDE, recipe=_STAGED),
)


def seconds_from(text: str) -> float:
    """The seconds of a time such as 90s, 60m, 1.5h or 2d; ValueError if it is not one."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", text)
    if not match:
        raise InputError(f"budget={text!r} is not a time: write 90s, 60m, 24h or 2d")
    return float(match[1]) * _UNITS[match[2]]


def measure_size(
    seconds: float, sizes: Sequence[ModelSize], training: Callable[[ModelSize], Training], report: LogLine
) -> ModelSize:
    """The size that there is time for, by the time that its updates take here."""
    if hosts_of(tf.distribute.get_strategy()).num_hosts > 1:
        raise InputError("a budget is for one machine, and TF_CONFIG names several: say --steps")
    report("measuring the time of an update, which takes about a minute")
    size = fit_to_budget(seconds, sizes, lambda size: seconds_per_update(training(size)))
    report(
        f"{seconds:g} s are time for {size.recipe.steps:,} updates, {size.recipe.warmup_steps:,} of them "
        f"warm-up, of a network {size.config.hidden_size} wide and {size.config.num_hidden_layers} deep"
    )
    return size


def fit_to_budget(
    seconds: float, sizes: Sequence[ModelSize], pace: Callable[[ModelSize], Sequence[float]]
) -> ModelSize:
    """The largest size that has time for its least updates, with as many updates as there is time for.

    Args:
      seconds: the time.
      sizes: from the smallest, which is taken where there is time for none, to the largest.
      pace: measures the seconds of an update in each stage of a size.
    """
    chosen: ModelSize | None = None
    for size in sizes:
        if chosen and chosen.recipe.steps < size.least_updates:  # a larger network would get fewer yet
            break
        ends = [0.0, *(stage.until for stage in size.recipe.all_stages)]
        shares = (end - begin for begin, end in itertools.pairwise(ends))
        mean = sum(share * each for share, each in zip(shares, pace(size), strict=True))
        steps = int(TRAINING_SHARE * seconds / mean)
        if chosen and steps < size.least_updates:
            break
        try:
            chosen = size.with_steps(steps)
        except InputError as error:  # not an update for each stage
            raise InputError(
                f"a budget of {seconds:g} s is too short: an update takes {mean:.2g} s here"
            ) from error
    assert chosen is not None
    return chosen


def seconds_per_update(training: Training) -> list[float]:
    """The time of an update in each phase of a run, in seconds: the median of some."""
    step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    medians = []
    for phase in training.phases:
        feed = phase.batches(training.seed)
        train_step, iterator = training.train_step(phase, feed, step), iter(feed.dataset)
        train_step(iterator, FIRST_UPDATES)
        seconds: list[float] = []
        while len(seconds) < UPDATES and sum(seconds) < MAX_SECONDS:
            started = time.perf_counter()
            float(train_step(iterator, 1).gradient_norm)  # which waits for its end
            seconds.append(time.perf_counter() - started)
        medians.append(statistics.median(seconds))
    return medians


def size_for_steps(sizes: Sequence[ModelSize]) -> ModelSize:
    """The largest of the sizes whose own recipe has updates enough; the first where none has."""
    return next((size for size in reversed(sizes) if size.recipe.steps >= size.least_updates), sizes[0])


def size_of_run(sizes: Sequence[ModelSize], config: AlbertConfig) -> ModelSize:
    """The size of a run's network, the largest where none is: what differs is then seen in comparing."""
    same = (size for size in sizes if size.config.replace(vocab_size=config.vocab_size) == config)
    return next(same, sizes[-1])


def sizes_at_least(sizes: Sequence[ModelSize], origin: AlbertConfig) -> Sequence[ModelSize]:
    """The sizes as wide as the network whose weights they begin with, and as deep.

    Where none is as deep, the deepest; where none is as wide, all, which are then refused.
    """
    wide = [size for size in sizes if size.config.hidden_size == origin.hidden_size]
    deep = [size for size in wide if size.config.num_hidden_layers >= origin.num_hidden_layers]
    return deep or wide[-1:] or sizes
