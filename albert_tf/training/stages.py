"""A model and the phases that it is trained in, which differ in their batches and in how they call it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.models.loss_sums import LossFn, LossSum
from albert_tf.runs.run_directory import LOWEST_LOSS, Best
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings
from albert_tf.training.distribution import DistributedBatches, compiles, device_kind, keeps_iterator
from albert_tf.training.metrics_logger import loss_metrics
from albert_tf.training.train_step import Batch, TrainStep, compilation_log


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingStage:
    """Updates that are all made alike.

    Args:
      end: updates of the run that are done then.
      batch_size: rows of the global batch.
      seq_length: positions of a row; None where they are not all as long.
      batches: the batches of a seed, without end.
      evaluate: computes metrics of held-out data by name; a `loss` among them must be finite.
      arguments: further arguments that the model is called with in training.
      description: entries of the lines of metrics that say of which updates they are.
      on_start: called before the first update, where another phase has gone before.
    """

    end: int
    batch_size: int
    seq_length: int | None
    batches: Callable[[int], DistributedBatches]
    evaluate: Callable[[], Mapping[str, float]]
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    description: Mapping[str, int] = dataclasses.field(default_factory=dict)
    on_start: Callable[[], None] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training:
    """A model, the optimizer that trains it, and the phases of its run.

    Args:
      model: made under the current strategy.
      optimizer: as `build_optimizer` makes it.
      objective: the losses.
      phases: the last one ends the run.
      seed: of everything random.
      execution: how updates are computed.
      loop: when to log, evaluate and save.
      metrics: the metrics of an objective's summed terms.
      best: the metric of an evaluation that tells the best step, among those of the last phase.
      asked: the flag that says how long the run is, and its value; empty: the steps.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    objective: LossFn
    phases: Sequence[TrainingStage]
    seed: int
    execution: ComputeConfig
    loop: LoopSettings
    metrics: Callable[[Mapping[str, LossSum]], dict[str, float]] = loss_metrics
    best: Best = LOWEST_LOSS
    asked: str = ""

    @property
    def steps(self) -> int:
        """Updates when the run is done."""
        return self.phases[-1].end

    def phase_of(self, step: int) -> TrainingStage:
        """The phase of the update that leads to a step; at step 0 the first."""
        return next(phase for phase in self.phases if step <= phase.end)

    def train_step(self, phase: TrainingStage, feed: DistributedBatches, step: tf.Variable) -> TrainStep:
        """The training step of a phase, on the batches of a feed; it counts in the variable `step`."""
        xla = compiles(self.execution.xla)
        return TrainStep(
            self.model,
            self.optimizer,
            self.objective,
            feed.dataset.element_spec,
            step=step,
            seed=self.seed,
            replicas_per_batch=feed.replicas_per_batch,
            accumulate=self.execution.accumulate,
            xla=xla,
            arguments=phase.arguments,
            on_batch=compilation_log("update") if xla else None,
        )


class TrainingState:
    """Everything that a checkpoint holds.

    Attributes:
      step: int64 scalar, the updates done so far.
      drawn_at: int64 scalar, the step whose seed the batches are drawn with.
      saves_iterator: True if checkpoints hold the iterator of the batches.
      feed: the batches, as soon as they are drawn.
      iterator: of the batches.
    """

    feed: DistributedBatches
    iterator: Iterator[Batch] | None = None

    def __init__(self, training: Training):
        self.model, self.optimizer, self._seed = training.model, training.optimizer, training.seed
        self.step, self.drawn_at = (
            tf.Variable(0, dtype=tf.int64, trainable=False, name=name) for name in ("step", "drawn_at")
        )
        self.saves_iterator = keeps_iterator(tf.distribute.get_strategy(), training.execution.data_service)

    @property
    def steps_done(self) -> int:
        """The value of `step`."""
        return int(tf.convert_to_tensor(self.step))

    def draw(self, phase: TrainingStage, step: int) -> None:
        """Goes on with the batches of a phase, with the seed of a step."""
        self.drawn_at.assign(step)
        self.feed = phase.batches(seed_of(self._seed, step))
        self.iterator = iter(self.feed.dataset)

    def parts(self, with_iterator: bool = True) -> dict[str, Any]:
        """The parts by the names that they have in a checkpoint, the same in all precisions."""
        optimizer, parts = self.optimizer, {"model": self.model, "step": self.step}
        if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
            parts["loss_scale"] = optimizer._loss_scale  # Keras has no public name for the whole of it
            optimizer = optimizer.inner_optimizer
        # Its variables alone: Keras hangs the loss scale on the inner optimizer, too.
        parts["optimizer"] = tf.train.Checkpoint(variables=list(optimizer.variables))
        if not (with_iterator and self.saves_iterator) or self.iterator is None:
            return parts
        # An iterator's state does not say with which seed its batches are drawn.
        return {**parts, "iterator": self.iterator, "drawn_at": self.drawn_at}


def seed_of(seed: int, step: int) -> int:
    """The seed of the batches from a step on, where no iterator can be restored; at step 0 the run's."""
    return seed if step == 0 else int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) >> 1


def model_options(execution: ComputeConfig) -> dict[str, Any]:
    """Arguments of a model's constructor."""
    return {"dtype": execution.policy, "remat": execution.remat, "fused": is_fused(execution)}


def is_fused(execution: ComputeConfig) -> bool:
    """True if chains of elementwise operations are to be compiled.

    On GPUs a forward pass then launches half as many; its time was measured on CPUs alone. Where XLA compiles
    everything, it joins operations itself.
    """
    return device_kind(tf.distribute.get_strategy()) != "TPU" and not compiles(execution.xla)


def build_optimizer(
    optimizer: keras.optimizers.Optimizer, model: keras.Model, execution: ComputeConfig
) -> keras.optimizers.Optimizer:
    """The optimizer of a model, with its variables, and with a loss scale where gradients need one."""
    if execution.precision == "float16":  # whose smallest gradients would be 0 without a scale
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer
