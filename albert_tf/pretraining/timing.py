"""The speed of updates on this machine, measured without text."""

from __future__ import annotations

import tensorflow as tf

from albert_tf.checkpoints.models import build_model
from albert_tf.config import AlbertConfig
from albert_tf.features import pretraining_spec
from albert_tf.optimization import create_optimizer
from albert_tf.pretraining.budget import seconds_per_update
from albert_tf.pretraining.objective import pretraining_objective
from albert_tf.training.phases import Phase, Training, built_optimizer, is_fused, model_options
from albert_tf.training.settings import Execution, LoopSettings
from albert_tf.training.strategies import Feed


def examples_per_second(
    config: AlbertConfig, rows: int, seq_length: int, predictions: int, execution: Execution
) -> float:
    """Examples that a device of this machine trains on in a second, in batches of so many rows, by LAMB.

    The batch is one of equal tokens without padding; what is computed of it takes as long as of text.
    """
    task = {"model": "pretrainer", "sentence_objective": "none" if config.pooler == "none" else "sop"}
    model = build_model(config, task, **model_options(execution))
    optimizer = create_optimizer("lamb", init_lr=0.0, num_train_steps=1)
    spec = pretraining_spec(rows, seq_length, predictions, task["sentence_objective"])
    batch = {name: tf.ones(part.shape, part.dtype) for name, part in spec.items()}
    batches = Feed(tf.data.Dataset.from_tensors(batch).repeat(), None)
    phase = Phase(end=1, batch_size=rows, seq_length=seq_length, batches=lambda seed: batches, evaluate=dict)
    training = Training(
        model=model,
        optimizer=built_optimizer(optimizer, model, execution),
        objective=pretraining_objective(task["sentence_objective"], fused=is_fused(execution)),
        phases=[phase],
        seed=0,
        execution=execution,
        loop=LoopSettings(),
    )
    return rows / seconds_per_update(training)[0]
