"""Checkpoints of google-research/albert (TensorFlow 1), in and out."""

from __future__ import annotations

import glob
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.models import task_of
from albert_tf.checkpoints.names import GOOGLE_SCOPE, variable_names
from albert_tf.checkpoints.tensor_bundle import READ_ERRORS, checkpoint_shapes, unreadable
from albert_tf.config import GOOGLE_FILE, AlbertConfig
from albert_tf.conversion.grouping import grouping_problems, whole_layers
from albert_tf.conversion.transfer import (
    Source,
    Tensors,
    Wanted,
    find_prefix,
    find_task,
    pretraining_names,
)
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import write_json

# What a published checkpoint consists of, beside its vocabulary.
CHECKPOINT, VOCABULARY = "model.ckpt-best", "30k-clean.model"

# What training leaves beside the weights and their slots.
_TRAINING = re.compile(
    r"(.*/)?(global_step|save_counter|beta[12]_power|(current_)?loss_scale|good_steps)(_\d+)?"
)
_SLOT = re.compile(r".*/((adam|lamb)_[mv]|Adam(_1)?|Momentum|ExponentialMovingAverage)(_\d+)?")

# Scopes that tell networks of other kinds, and whose they are.
_OTHERS = {"/layer_shared/": "brightmart/albert_zh", "/encoder/layer_0/": "BERT"}

# What its configs say beside the fields that they share with ours.
_HISTORICAL = {"net_structure_type": 0, "gap_size": 0, "num_memory_blocks": 0, "down_scale_factor": 1}
_UNKNOWN = ("sharing", "layer_norm_eps", "project_embeddings")


def open_bundle(prefix: Path) -> Tensors:
    """Opens a TensorFlow checkpoint.

    Args:
      prefix: the checkpoint's path without `.index` and `.data-…`.
    Returns:
      Its tensors, under the names that they have there.
    Raises:
      FileNotFoundError: the checkpoint does not exist.
      ValueError: it is damaged.
    """
    if not prefix.with_name(f"{prefix.name}.index").is_file():
        raise FileNotFoundError(f"{prefix}.index is missing: no checkpoint there")
    shapes = {name: tuple(shape) for name, shape in checkpoint_shapes(prefix).items()}
    reader = tf.train.load_checkpoint(str(prefix))
    types = reader.get_variable_to_dtype_map()
    files = list(prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*"))
    needed = sum(types[name].size * math.prod(shape) for name, shape in shapes.items() if types[name].size)
    # Without data names and shapes can still be compared.
    if files and needed > sum(file.stat().st_size for file in files):
        raise InputError(f"{prefix}: its .data file is cut off, the index lists {needed} bytes")
    dtypes = {name: dtype.name for name, dtype in types.items()}

    def read(name: str) -> np.ndarray:
        try:
            return reader.get_tensor(name)
        except READ_ERRORS as error:
            raise unreadable(prefix, error) from error

    return Tensors(str(prefix), shapes, dtypes, read)


def google_source(tensors: Tensors, config: AlbertConfig, partial: bool, vocabulary: Path | None) -> Source:
    """A TF1 checkpoint of ALBERT, or the variables of a TF1 module of TF Hub.

    Args:
      tensors: the checkpoint.
      config: the network's shape, from albert_config.json.
      partial: True to read the encoder alone.
      vocabulary: found beside it.
    Returns:
      What to compare and to read. A checkpoint without heads is an encoder; one with the output layer of
      run_classifier, run_race (one logit: as a regression), run_squad_v1 or run_squad_v2 a fine-tuned
      model, whose pre-training heads, if it still has them, are left unread.
    Raises:
      ValueError: there are several models in it.
    """
    prefix = find_prefix(tensors, GOOGLE_SCOPE, "embeddings/word_embeddings")
    task = {"model": "encoder"} if partial else find_task(tensors, prefix, "google")
    aliases = _layer_normalization(tensors.shapes)
    if config.embedding_size == config.hidden_size:
        projection = f"{prefix.encoder}encoder/embedding_hidden_mapping_in/kernel"
        config = config.replace(project_embeddings=True if projection in tensors.shapes else None)
    wanted = {}
    for names in variable_names(config, task):
        name = prefix.apply(names.google, tensors.shapes)
        wanted[names.ours] = Wanted(name if name in tensors.shapes else aliases.get(name, name), names.shape)
    heads = {prefix.apply(name, tensors.shapes) for name in pretraining_names("google")}
    is_fine_tuned = task["model"] not in ("encoder", "pretrainer")

    def is_ignored(name: str) -> bool:
        is_slot = name.rpartition("/")[0] in tensors.shapes or _SLOT.fullmatch(name) is not None
        return is_slot or _TRAINING.fullmatch(name) is not None or (is_fine_tuned and name in heads)

    others = [whose for scope, whose in _OTHERS.items() if any(scope in name for name in tensors.shapes)]
    problems = [f"the layout is that of {whose}, another network" for whose in others]
    problems += grouping_problems(config, _group)
    return Source(tensors, config, task, wanted, is_ignored, vocabulary, problems=problems)


def _layer_normalization(names: Iterable[str]) -> dict[str, str]:
    """The names of LayerNorms that Keras has named and numbered, by their usual names.

    >>> _layer_normalization(["layer_1/dense/bias", "layer_1/layer_normalization_9/beta"])
    {'layer_1/LayerNorm/beta': 'layer_1/layer_normalization_9/beta'}
    """
    numbers: dict[str, set[int]] = {}
    matches = [re.fullmatch(r"(.*/)layer_normalization(?:_(\d+))?/(gamma|beta)", name) for name in names]
    found = [(match[1], int(match[2] or 0), match[3], match[0]) for match in matches if match]
    for scope, number, _, _ in found:
        numbers.setdefault(scope, set()).add(number)
    aliases = {}
    for scope, number, variable, name in found:
        place = sorted(numbers[scope]).index(number)
        aliases[f"{scope}LayerNorm{f'_{place}' if place else ''}/{variable}"] = name
    return aliases


def _group(layer: int, layers: int, groups: int) -> int:
    return int(layer / layers * groups)


def google_config(config: AlbertConfig) -> dict[str, Any]:
    """The content of albert_config.json.

    Raises:
      ValueError: google-research/albert cannot express this network; the message says all that is the matter.
    """
    problems = []
    if config.sharing in ("attention", "ffn"):
        problems.append(f'sharing="{config.sharing}": there layers share both blocks or none')
    else:
        problems += grouping_problems(whole_layers(config), _group)
    if config.hidden_act == "gelu_erf":
        problems.append('hidden_act="gelu_erf": its GELU is the tanh form')
    if config.layer_norm_eps != 1e-12:
        problems.append(f"layer_norm_eps={config.layer_norm_eps}: there it is 1e-12")
    if config.has_projection and config.embedding_size == config.hidden_size:
        problems.append(
            "project_embeddings=True: it projects only where embedding_size and hidden_size differ"
        )
    if problems:
        raise InputError(f"google-research/albert cannot express this network: {'; '.join(problems)}")
    values = {**whole_layers(config).to_dict(), **_HISTORICAL}
    return {key: value for key, value in values.items() if key not in _UNKNOWN}


def write_google(model: Any, folder: Path, step: int) -> None:
    """Writes a model as google-research/albert's code restores it, beside its albert_config.json.

    Args:
      model: one of ours.
      folder: where to; it exists.
      step: training step, which Estimators look for.
    Raises:
      ValueError: that code cannot express this network.
      OSError, tf.errors.OpError: a file cannot be written.
    """
    write_json(folder / GOOGLE_FILE, google_config(model.config))
    google = {names.ours: names.google for names in variable_names(model.config, task_of(model))}
    tensors = {google[variable.name.partition(":")[0]]: variable.read_value() for variable in model.variables}
    tensors["global_step"] = tf.constant(step, tf.int64)
    tf.raw_ops.SaveV2(
        prefix=str(folder / CHECKPOINT),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
