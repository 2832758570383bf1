"""The teacher: a trained network whose weights stay as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.runs.build_model import build_model
from albert_tf.runs.load_save import check_finite, open_stored_model
from albert_tf.runs.run_directory import RunDirectory, provenance_record
from albert_tf.training.compute_settings import ComputeConfig
from albert_tf.training.stages import is_fused

# A function from a batch to the outputs of a teacher.
Teacher = Callable[[Mapping[str, tf.Tensor]], dict[str, tf.Tensor]]


def read_teacher(run: RunDirectory, execution: ComputeConfig, labels: Sequence[str] = ()) -> Teacher:
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
    stored = open_stored_model(run)
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
    digest = provenance_record({}, run.path)["init_from_sha256"]
    return {"teacher": run.path, "teacher_sha256": digest}
