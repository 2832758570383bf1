"""A run of a toy model: a line through points, trained as any model is."""

import contextlib
import functools
import os

import pytest
import tensorflow as tf
import tf_keras as keras

from albert_tf.models.loss_sums import Loss, LossFn, sum_losses
from albert_tf.optimization import create_optimizer
from albert_tf.runs.run_directory import RunContents, RunDirectory
from albert_tf.training import loop
from albert_tf.training.compute_settings import ComputeConfig, LoopSettings
from albert_tf.training.distribution import distribute_batches
from albert_tf.training.stages import Training, TrainingStage, build_optimizer
from albert_tf.training.trainer import train, training_scope
from tests.tiny import TINY

ROWS = 4


class Line(keras.Model):
    """y = slope · x + offset, with noise in training as dropout makes it."""

    def __init__(self):
        super().__init__()
        self.slope = self.add_weight(name="line/slope", shape=[], initializer="ones")
        self.offset = self.add_weight(name="line/offset", shape=[], initializer="zeros")

    def call(self, inputs, training=False, seed=None, power=1):
        noise = tf.random.stateless_normal([], seed) / 10 if training else 0.0
        return {"y": self.slope * inputs["x"] ** power + self.offset + noise}


def line_loss(outputs, batch, weights):
    return sum_losses((outputs["y"] - 3 * batch["x"] - 1) ** 2, None, weights)


LOSS_FN = LossFn({"line": Loss(line_loss, lambda batch: tf.ones_like(batch["x"]))})


def points(seed):
    """Batches of shuffled points, as one program reads them."""

    def batches(rows, part):
        data = tf.data.Dataset.range(16).shuffle(16, seed=seed).repeat()
        return data.map(lambda x: {"x": tf.cast(x, tf.float32) / 16}).batch(rows, drop_remainder=True)

    return distribute_batches(tf.distribute.get_strategy(), batches, ROWS)


def fit(path, *ends, learning_rate=0.1, losses=None, batches=points, started=None, lines=None, **changes):
    """Trains a line to the ends of some phases, and gives the run and the weights.

    Args:
      path: of the run directory.
      *ends: of the stages; 6 if there are none.
      learning_rate: of LAMB, without a warm-up.
      losses: what evaluations find, one after the other; None: what is true.
      batches: of a seed.
      started: a list that gets the end of each stage that begins after another.
      lines: a list that gets what is reported.
      **changes: of ComputeConfig and LoopSettings.
    """
    of_loop = {"log_every": 1, "eval_every": 2, "checkpoint_every": 1, "keep": 10}
    of_loop |= {name: value for name, value in changes.items() if hasattr(LoopSettings, name)}
    compute = ComputeConfig(**{name: value for name, value in changes.items() if name not in of_loop})
    run, report = RunDirectory(path), (lambda line: None) if lines is None else lines.append
    with training_scope(run, compute, report):
        keras.utils.set_random_seed(0)
        model = Line()

        def evaluate():
            if losses is not None:
                return {"loss": next(losses)}
            batch = {"x": tf.range(16, dtype=tf.float32) / 16}
            return {"loss": float(LOSS_FN.terms(model(batch), batch)["line"].loss)}

        stages = [
            TrainingStage(
                end=end,
                batch_size=ROWS,
                seq_length=None,
                batches=batches,
                evaluate=evaluate,
                arguments={"power": number + 1},
                description={"seq_length": number} if len(ends) > 1 else {},
                on_start=None if started is None else functools.partial(started.append, end),
            )
            for number, end in enumerate(ends or (6,))
        ]
        optimizer = create_optimizer("adamw", init_lr=learning_rate, num_train_steps=stages[-1].end)
        training = Training(
            model=model,
            optimizer=build_optimizer(optimizer, model, compute),
            loss_fn=LOSS_FN,
            stages=stages,
            seed=0,
            compute=compute,
            loop=LoopSettings(**of_loop),
        )
        train(run, training, RunContents(TINY, {"model": "encoder"}, recipe={"seed": 0}), report)
    return run, [variable.numpy() for variable in model.variables]


def signalled(monkeypatch, number, step, name):
    """Has a process get a signal while it logs a metric of a step."""
    record = loop.MetricsLogger.record

    def recorded(self, at, metrics):
        record(self, at, metrics)
        if at == step and name in metrics:
            os.kill(os.getpid(), number)

    monkeypatch.setattr(loop.MetricsLogger, "record", recorded)


@contextlib.contextmanager
def dying_after(step):
    """A process that trains and dies once the checkpoint of a step is written."""
    original = loop.write_checkpoint

    def write_and_die(run, number, /, **parts):
        original(run, number, **parts)
        if number == step:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "write_checkpoint", write_and_die)
        yield
