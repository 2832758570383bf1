"""Chooses the size of a network, and the number of steps, for a given training time."""

from __future__ import annotations

import dataclasses
import itertools
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.constants import pretraining_spec
from albert_tf.errors import InputError, check_range
from albert_tf.optimization import create_optimizer
from albert_tf.pretraining.loss import pretraining_loss_fn
from albert_tf.recipes import PRETRAINING_RECIPES, PretrainingRecipe, Stage
from albert_tf.runs.build_model import build_model
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.distribution import get_hosts, uses_xla
from albert_tf.training.stages import Training, build_optimizer, is_fused, model_options
from albert_tf.training.train_step import Batch, TrainStep, compilation_log
from albert_tf.training.trainer import LogFunction


def measure_examples_per_second(
    config: AlbertConfig, rows: int, seq_length: int, predictions: int, compute: ComputeConfig
) -> float:
    """Measures the examples per second of one device of this machine in training with LAMB.

    The batch repeats one token, without padding. It takes as long as text.

    Args:
      config: the network's shape.
      rows: number of examples in a batch.
      seq_length: number of tokens in an example.
      predictions: number of masked tokens in an example.
      compute: how a step is computed.
    """
    task = {"model": "pretrainer", "sentence_objective": "none" if config.pooler == "none" else "sop"}
    model = build_model(config, task, **model_options(compute))
    optimizer = create_optimizer("lamb", init_lr=0.0, num_train_steps=1)
    spec = pretraining_spec(rows, seq_length, predictions, task["sentence_objective"])
    batch = {name: tf.ones(part.shape, part.dtype) for name, part in spec.items()}
    batches, xla = tf.data.Dataset.from_tensors(batch).repeat(), uses_xla(compute.xla)
    train_step = TrainStep(
        model,
        build_optimizer(optimizer, model, compute),
        pretraining_loss_fn(task["sentence_objective"], fused=is_fused(compute)),
        batches.element_spec,
        step=tf.Variable(0, dtype=tf.int64, trainable=False, name="step"),
        seed=0,
        accumulate=compute.accumulate,
        xla=xla,
        on_batch=compilation_log("step") if xla else None,
    )
    return rows / time_step(train_step, iter(batches))


# Fraction of the time for training steps. The rest is for tracing, checkpoints and evaluations.
TRAINING_FRACTION = 0.95

# A few untimed steps come first: they trace, and fill the input pipeline. Then steps are timed until one of
# both limits is reached.
UNTIMED_STEPS, MAX_TIMED_STEPS, MAX_TIMED_SECONDS = 2, 20, 10

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}  # in seconds


def warmup_steps_for(recipe: PretrainingRecipe, steps: int) -> int:
    """Number of warm-up steps in a run of `steps` steps: the recipe's, at most a tenth of the steps."""
    return min(recipe.warmup_steps, steps // 10)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelSize:
    """A network and its recipe. With at least `min_steps` steps it is better than the smaller networks."""

    min_steps: int = 1
    config: AlbertConfig
    recipe: PretrainingRecipe

    def with_steps(self, steps: int) -> ModelSize:
        """Returns a copy whose recipe has that many steps."""
        recipe = self.recipe.replace(steps=steps, warmup_steps=warmup_steps_for(self.recipe, steps))
        return dataclasses.replace(self, recipe=recipe)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TimeBudget:
    """Training time in seconds, and the sizes to choose from, smallest first."""

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
    initializer_range=0.06,  # with 0.02 it never learns more than frequencies
)

_DEEP = _SMALL.replace(num_hidden_layers=2)
_WIDE = _DEEP.replace(hidden_size=256, num_attention_heads=8, intermediate_size=1024)
_STAGED = PRETRAINING_RECIPES["one_machine"]
_FLAT = _STAGED.replace(stages=(Stage(until=0.75, seq_length=64, batch_size=32), Stage()))

# The sizes of `--recipe one_machine`, smallest first. The budget sets the number of steps.
ONE_MACHINE: Sequence[ModelSize] = (
    ModelSize(config=_SMALL, recipe=_FLAT),
    ModelSize(min_steps=10_000, config=_DEEP, recipe=_STAGED),
    ModelSize(min_steps=16_000, config=_WIDE, recipe=_STAGED),
)


def parse_duration(text: str) -> float:
    """Converts a time such as 90s, 60m, 1.5h or 2d to seconds. Raises InputError if it is not a time."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", text)
    if not match:
        raise InputError(f"budget={text!r} is not a time: write 90s, 60m, 24h or 2d")
    return float(match[1]) * _UNITS[match[2]]


def choose_size(
    seconds: float,
    sizes: Sequence[ModelSize],
    make_training: Callable[[ModelSize], Training],
    report: LogFunction,
) -> ModelSize:
    """Measures the time of a step on this machine, and returns the size for a training time."""
    if get_hosts(tf.distribute.get_strategy()).num_hosts > 1:
        raise InputError("a budget is for one machine, and TF_CONFIG names several: say `steps`")
    report("measuring the time of a step, which takes about a minute")
    size = fit_to_budget(seconds, sizes, lambda size: measure_step_seconds(make_training(size)))
    report(
        f"{seconds:g} s are time for {size.recipe.steps:,} steps, {size.recipe.warmup_steps:,} of them "
        f"warm-up, of a network {size.config.hidden_size} wide and {size.config.num_hidden_layers} deep"
    )
    return size


def fit_to_budget(
    seconds: float, sizes: Sequence[ModelSize], measure: Callable[[ModelSize], Sequence[float]]
) -> ModelSize:
    """Returns the largest size whose `min_steps` fit into the time, with as many steps as fit.

    Args:
      seconds: training time.
      sizes: sizes to choose from, smallest first. The smallest is the choice if none has enough time.
      measure: returns the seconds of a step in each stage of a size.
    """
    chosen: ModelSize | None = None
    for size in sizes:
        if chosen and chosen.recipe.steps < size.min_steps:  # a larger network would make even fewer steps
            break
        ends = [0.0, *(stage.until for stage in size.recipe.all_stages)]
        shares = (end - begin for begin, end in itertools.pairwise(ends))
        mean = sum(share * step for share, step in zip(shares, measure(size), strict=True))
        steps = int(TRAINING_FRACTION * seconds / mean)
        if chosen and steps < size.min_steps:
            break
        try:
            chosen = size.with_steps(steps)
        except InputError as error:  # less than one step for each stage
            raise InputError(
                f"a budget of {seconds:g} s is too short: a step takes {mean:.2g} s here"
            ) from error
    assert chosen is not None
    return chosen


def measure_step_seconds(training: Training) -> list[float]:
    """Measures the seconds of a step in each stage of a run."""
    step = tf.Variable(0, dtype=tf.int64, trainable=False, name="step")
    medians = []
    for stage in training.stages:
        batches = stage.batches(training.seed)
        train_step = training.make_train_step(stage, batches, step)
        medians.append(time_step(train_step, iter(batches.dataset)))
    return medians


def time_step(train_step: TrainStep, iterator: Iterator[Batch]) -> float:
    """Measures the seconds of a step: the median of several steps."""
    train_step(iterator, UNTIMED_STEPS)
    seconds: list[float] = []
    while len(seconds) < MAX_TIMED_STEPS and sum(seconds) < MAX_TIMED_SECONDS:
        started = time.perf_counter()
        float(train_step(iterator, 1).gradient_norm)  # waits for the end of the step
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def size_for_steps(sizes: Sequence[ModelSize]) -> ModelSize:
    """The largest size whose recipe has at least `min_steps` steps; the smallest if none has."""
    return next((size for size in reversed(sizes) if size.recipe.steps >= size.min_steps), sizes[0])


def size_of_run(sizes: Sequence[ModelSize], config: AlbertConfig) -> ModelSize:
    """The size of a run's network. If none matches, the largest: comparing the settings then raises."""
    same = (size for size in sizes if size.config.replace(vocab_size=config.vocab_size) == config)
    return next(same, sizes[-1])


def sizes_at_least(sizes: Sequence[ModelSize], origin: AlbertConfig) -> Sequence[ModelSize]:
    """The sizes that can start from the weights of a network: with its width, and at least its depth.

    If none is as deep, the deepest of that width. If none has the width, all: starting from it then raises.
    """
    wide = [size for size in sizes if size.config.hidden_size == origin.hidden_size]
    deep = [size for size in wide if size.config.num_hidden_layers >= origin.num_hidden_layers]
    return deep or wide[-1:] or sizes
