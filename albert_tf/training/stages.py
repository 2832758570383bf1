"""A model and the stages of its training, which differ in batches and in arguments of the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from albert_tf.models.loss_sums import LossFn
from albert_tf.runs.run_directory import LOWEST_LOSS, StepOrder
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings
from albert_tf.training.distribution import DistributedBatches, can_save_iterator, device_kind, uses_xla
from albert_tf.training.metrics_logger import MetricsFunction, loss_metrics
from albert_tf.training.train_step import Batch, TrainStep, compilation_log


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingStage:
    """A stage of training: consecutive steps with the same kind of batches.

    Args:
      end: step of the run at which the stage ends.
      batch_size: number of rows of the global batch.
      seq_length: number of positions of a row. None: lengths vary.
      batches: returns the endless batches for a seed.
      evaluate: computes the metrics of held-out data. A metric `loss` must be finite.
      arguments: further arguments of the model's call in training.
      description: entries to add to each line of metrics, such as the length of the stage.
      on_start: called before the first step, unless this is the first stage of the run.
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
    """A model, its optimizer and the stages of its training.

    Args:
      model: created under the current strategy.
      optimizer: returned by `build_optimizer`.
      loss_fn: the losses.
      stages: the run ends with the last one.
      seed: seed of everything random.
      compute: how a step is computed.
      loop: when to log, evaluate and save.
      metrics: computes metrics from the summed terms of `loss_fn`.
      best: metric that decides which step of the last stage is the best.
      epochs: number of epochs, for messages, if that sets the length of the run. None: `steps` does.
    """

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    loss_fn: LossFn
    stages: Sequence[TrainingStage]
    seed: int
    compute: ComputeConfig
    loop: LoopSettings
    metrics: MetricsFunction = loss_metrics
    best: StepOrder = LOWEST_LOSS
    epochs: float | None = None

    @property
    def steps(self) -> int:
        """Number of steps of the run."""
        return self.stages[-1].end

    def stage_at(self, step: int) -> TrainingStage:
        """The stage that a step belongs to. Steps count from 1; step 0 belongs to the first stage."""
        return next(stage for stage in self.stages if step <= stage.end)

    def make_train_step(
        self, stage: TrainingStage, batches: DistributedBatches, step: tf.Variable
    ) -> TrainStep:
        """Creates the training step of a stage. It counts the steps done in the variable `step`."""
        xla = uses_xla(self.compute.xla)
        return TrainStep(
            self.model,
            self.optimizer,
            self.loss_fn,
            batches.dataset.element_spec,
            step=step,
            seed=self.seed,
            replicas_per_batch=batches.replicas_per_batch,
            accumulate=self.compute.accumulate,
            xla=xla,
            arguments=stage.arguments,
            on_batch=compilation_log("step") if xla else None,
        )


class TrainingState:
    """Everything that a checkpoint holds.

    Attributes:
      step: int64 scalar, number of steps done so far.
      drawn_at: int64 scalar, step whose seed the batches are drawn with.
      saves_iterator: True if checkpoints hold the iterator of the batches.
      batches: set by `start_batches`.
      iterator: iterator of the batches. None before `start_batches`.
    """

    batches: DistributedBatches
    iterator: Iterator[Batch] | None = None

    def __init__(self, training: Training):
        self.model, self.optimizer, self._seed = training.model, training.optimizer, training.seed
        self.step, self.drawn_at = (
            tf.Variable(0, dtype=tf.int64, trainable=False, name=name) for name in ("step", "drawn_at")
        )
        self.saves_iterator = can_save_iterator(tf.distribute.get_strategy(), training.compute.data_service)

    @property
    def steps_done(self) -> int:
        """The value of `step`."""
        return int(tf.convert_to_tensor(self.step))

    def start_batches(self, stage: TrainingStage, step: int) -> None:
        """Starts the batches of a stage, drawn with the seed of a step."""
        self.drawn_at.assign(step)
        self.batches = stage.batches(seed_from_step(self._seed, step))
        self.iterator = iter(self.batches.dataset)

    def parts(self, with_iterator: bool = True) -> dict[str, Any]:
        """The parts of a checkpoint by name. The names do not depend on the precision."""
        optimizer, parts = self.optimizer, {"model": self.model, "step": self.step}
        if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
            parts["loss_scale"] = optimizer._loss_scale  # Keras has no public name for the whole object
            optimizer = optimizer.inner_optimizer
        # Only its variables: Keras attaches the loss scale to the inner optimizer, too.
        parts["optimizer"] = tf.train.Checkpoint(variables=list(optimizer.variables))
        if not (with_iterator and self.saves_iterator) or self.iterator is None:
            return parts
        # The state of an iterator does not contain the seed of its batches.
        return {**parts, "iterator": self.iterator, "drawn_at": self.drawn_at}


def seed_from_step(seed: int, step: int) -> int:
    """Seed of the batches that start at a step. At step 0 it is the seed of the run."""
    return seed if step == 0 else int(np.random.SeedSequence([seed, step]).generate_state(1)[0]) >> 1


def model_options(compute: ComputeConfig) -> dict[str, Any]:
    """The arguments of a model's constructor that follow from how it is computed."""
    return {"dtype": compute.policy, "remat": compute.remat, "fused": is_fused(compute)}


def is_fused(compute: ComputeConfig) -> bool:
    """True if the model compiles chains of elementwise operations: without full XLA, except on TPUs.

    On GPUs the forward pass then launches half as many kernels; its time was measured on CPUs only. If XLA
    compiles the whole network, it fuses operations itself.
    """
    return device_kind(tf.distribute.get_strategy()) != "TPU" and not uses_xla(compute.xla)


def build_optimizer(
    optimizer: keras.optimizers.Optimizer, model: keras.Model, compute: ComputeConfig
) -> keras.optimizers.Optimizer:
    """Creates an optimizer's variables for a model, and adds loss scaling for float16."""
    if compute.precision == "float16":  # without a scale the smallest gradients would be 0
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer
