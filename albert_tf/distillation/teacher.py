"""The teacher: a trained network whose weights stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.checkpoints.models import build_model
from albert_tf.checkpoints.origin import origin_record
from albert_tf.checkpoints.run import check_finite, stored_model
from albert_tf.training.phases import is_fused
from albert_tf.training.settings import Execution
from albert_tf.utils.errors import InputError

# A function from a batch to the outputs of a teacher.
Teacher = Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


def read_teacher(run: RunDirectory, execution: Execution, labels: Sequence[str] = ()) -> Teacher:
    """The network of a run as a function from a batch to its outputs, which no gradient goes through.

    Neither trainer nor checkpoint knows its variables: the losses alone call it.

    Args:
      run: the run directory.
      execution: of the student's training, whose precision is the teacher's, too; it is made under the
        strategy that is current.
      labels: of the student, in whose order the `logits` are returned; none: in the teacher's own.
    Raises:
      InputError: the teacher has other labels, or its weights are non-finite.
    """
    known = run.task.get("labels", []) if labels else []
    if sorted(known) != sorted(labels):
        raise InputError(f"the labels {list(labels)} are not those of {run}, {known}: name another teacher")
    order = [known.index(label) for label in labels]
    stored = stored_model(run)
    options = {"dtype": execution.policy, "fused": is_fused(execution)}
    model = build_model(stored.config, stored.task, stored.read, **options)
    check_finite(model, run)

    def teacher(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        outputs = model(batch, training=False)
        if order:
            outputs = {**outputs, "logits": tf.gather(outputs["logits"], order, axis=-1)}
        return {name: tf.stop_gradient(x) for name, x in outputs.items() if isinstance(x, tf.Tensor)}

    return teacher


def teacher_record(run: RunDirectory) -> dict[str, Any]:
    """The entries `teacher` and `teacher_sha256` of recipe.json; a resumed run must have the same weights."""
    digest = origin_record({}, run.path)["init_from_sha256"]
    return {"teacher": run.path, "teacher_sha256": digest}
