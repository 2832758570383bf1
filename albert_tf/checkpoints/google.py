"""Checkpoints of google-research/albert (TensorFlow 1)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.names import variable_names
from albert_tf.checkpoints.run import build_model
from albert_tf.checkpoints.steps import READ_ERRORS, checkpoint_shapes, unreadable
from albert_tf.checkpoints.transfer import Tensors, Wanted, fill
from albert_tf.config import AlbertConfig

# What training leaves beside the weights: the step, and two slots a variable.
_OPTIMIZER = re.compile(r"global_step|.*/((adam|lamb)_[mv]|Adam(_1)?)(_\d+)?|beta[12]_power")


def read_google(
    prefix: Path, config: AlbertConfig, partial: bool = False
) -> tuple[Any, list[str], list[str]]:
    """The model in a TF1 checkpoint.

    Args:
      prefix: the checkpoint's path without `.index` and `.data-…`.
      config: the network's shape, from albert_config.json.
      partial: whether to read the encoder only, and start what it misses afresh.
    Returns:
      The model, an AlbertPretrainer or, where there is no MLM head, an AlbertEncoder; the names of what was
      left unread; and of what was not there.
    Raises:
      FileNotFoundError: there is no such checkpoint.
      ValueError: it is damaged, or its variables are not those of the config; the message names them.
    """
    tensors = _open(prefix)
    task = {"model": "encoder"} if partial else _task(tensors)
    model = build_model(config, task)
    wanted = {names.ours: Wanted(names.google, np.asarray) for names in variable_names(config, task)}
    unread, fresh = fill(
        model,
        tensors,
        wanted,
        is_ignored=lambda name: _OPTIMIZER.fullmatch(name) is not None,
        partial=partial,
    )
    return model, unread, fresh


def _open(prefix: Path) -> Tensors:
    if not prefix.with_name(f"{prefix.name}.index").exists():
        raise FileNotFoundError(f"{prefix}.index is missing: no checkpoint there")
    shapes = {name: tuple(shape) for name, shape in checkpoint_shapes(prefix).items()}
    reader = tf.train.load_checkpoint(str(prefix))

    def read(name: str) -> np.ndarray:
        try:
            return reader.get_tensor(name)
        except READ_ERRORS as error:
            raise unreadable(prefix, error) from error

    return Tensors(str(prefix), shapes, read)


def _task(tensors: Tensors) -> dict[str, Any]:
    """What the heads in a checkpoint say that it was trained for."""
    if not any(name.startswith("cls/predictions/") for name in tensors.shapes):
        return {"model": "encoder"}
    # Sentence-order and next-sentence heads have one name; google-research/albert trains the former.
    has_sentence = any(name.startswith("cls/seq_relationship/") for name in tensors.shapes)
    return {"model": "pretrainer", "sentence_objective": "sop" if has_sentence else "none"}
