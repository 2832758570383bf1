"""The run directory: its files, its checkpoints, and how one run's weights start another."""

from albert_tf.checkpoints.directory import RunContents, RunDirectory
from albert_tf.checkpoints.models import build_model, task_of
from albert_tf.checkpoints.run import load, opened_run, save
from albert_tf.checkpoints.steps import checkpoint_parts, checkpoint_steps, delete_checkpoint

__all__ = [
    "RunContents",
    "RunDirectory",
    "build_model",
    "checkpoint_parts",
    "checkpoint_steps",
    "delete_checkpoint",
    "load",
    "opened_run",
    "save",
    "task_of",
]
