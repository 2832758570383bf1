"""Checkpoints of google-research/albert (TensorFlow 1), in and out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.checkpoints.models import task_of
from albert_tf.checkpoints.names import GOOGLE_SCOPE, head_names, variable_names
from albert_tf.checkpoints.tensor_bundle import Tensors, open_bundle
from albert_tf.config import GOOGLE_FILE, AlbertConfig
from albert_tf.conversion.locations import find_vocabulary, only
from albert_tf.conversion.transfer import (
    Source,
    check_groups,
    find_task,
    whole_layers,
    with_usual_names,
)
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import write_json

# What a published checkpoint consists of, beside its vocabulary.
CHECKPOINT, VOCABULARY = "model.ckpt-best", "30k-clean.model"

# What training leaves beside the weights and their slots.
_TRAINING = re.compile(
    r"(.*/)?(global_step|save_counter|beta[12]_power|(current_)?loss_scale|good_steps)(_\d+)?"
)

# Scopes that tell networks of other kinds, and whose they are.
_OTHERS = {"/layer_shared/": "brightmart/albert_zh", "/encoder/layer_0/": "BERT"}

# Fields that its configs do not have.
_UNKNOWN = ("sharing", "layer_norm_eps", "project_embeddings")

_PRETRAINER = {"model": "pretrainer", "sentence_objective": "sop"}


def google_source(path: Path, config: Path | None, partial: bool) -> Source:
    """A checkpoint in a folder, or the checkpoint itself, with or without `.index` or `.data-…`."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        prefix = only(path, "*.index", "variables/*.index").with_suffix("")
    else:
        prefix = path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", path.name))
    tensors = open_bundle(prefix)
    config = config or only(folder, "albert_config*.json", "assets/albert_config*.json")
    return bundle_source(tensors, AlbertConfig.from_json_file(config), partial, find_vocabulary(folder))


def bundle_source(tensors: Tensors, config: AlbertConfig, partial: bool, vocabulary: Path | None) -> Source:
    """A TF1 checkpoint of ALBERT, or the variables of a TF1 module of TF Hub.

    Without heads it is an encoder; with the output layer of run_classifier, run_race (one logit: as a
    regression), run_squad_v1 or run_squad_v2 a fine-tuned model, whose pre-training heads are left unread.
    """
    for scope, whose in _OTHERS.items():
        if any(scope in name for name in tensors.shapes):
            raise InputError(f"{tensors.origin}: the layout is that of {whose}, another network")
    tensors = with_usual_names(tensors, GOOGLE_SCOPE, "embeddings/word_embeddings")
    tensors = tensors.renamed(_with_layer_norms(tensors.shapes))
    task = {"model": "encoder"} if partial else find_task(tensors, "google")
    if config.embedding_size == config.hidden_size:
        projects = f"{GOOGLE_SCOPE}encoder/embedding_hidden_mapping_in/kernel" in tensors.shapes
        config = config.replace(project_embeddings=projects or None)
    check_groups(config, _group)
    is_fine_tuned = task["model"] not in ("encoder", "pretrainer")
    ignored = {head.google.name for head in head_names(_PRETRAINER)} if is_fine_tuned else set()

    def is_ignored(name: str) -> bool:
        is_slot = name.rpartition("/")[0] in tensors.shapes
        return is_slot or _TRAINING.fullmatch(name) is not None or name in ignored

    stored = {names.ours: names.google for names in variable_names(config, task)}
    return Source(tensors, config, task, stored, vocabulary, is_ignored=is_ignored)


def _with_layer_norms(names: Iterable[str]) -> dict[str, str]:
    """Each name by its usual one: Keras numbers LayerNorms over the whole network.

    >>> _with_layer_norms(["layer_1/layer_normalization_9/beta", "layer_1/layer_normalization_10/beta"])
    {'layer_1/LayerNorm/beta': 'layer_1/layer_normalization_9/beta', 'layer_1/LayerNorm_1/beta': \
'layer_1/layer_normalization_10/beta'}
    """
    renamed = {name: name for name in names}
    matches = [re.fullmatch(r"(.*/)layer_normalization(?:_(\d+))?/(.+)", name) for name in renamed]
    found = sorted((match[1], match[3], int(match[2] or 0), match[0]) for match in matches if match)
    for (scope, variable), group in itertools.groupby(found, key=lambda entry: entry[:2]):
        for place, (*_, name) in enumerate(group):
            renamed[f"{scope}LayerNorm{f'_{place}' if place else ''}/{variable}"] = renamed.pop(name)
    return renamed


def _group(layer: int, layers: int, groups: int) -> int:
    return int(layer / layers * groups)


def google_config(config: AlbertConfig) -> dict[str, Any]:
    """The content of albert_config.json; InputError if google-research/albert cannot express this network."""
    projects = config.has_projection and config.embedding_size == config.hidden_size
    if config.hidden_act == "gelu_erf" or config.layer_norm_eps != 1e-12 or projects:
        raise InputError(
            f'google-research/albert cannot express hidden_act="{config.hidden_act}", layer_norm_eps='
            f"{config.layer_norm_eps}, project_embeddings={config.project_embeddings}: its GELU is the tanh "
            "form, the epsilon 1e-12, and it projects only where embedding_size and hidden_size differ"
        )
    values = whole_layers(config, _group).to_dict()
    return {key: value for key, value in values.items() if key not in _UNKNOWN}


def write_google(model: Any, folder: Path, step: int) -> None:
    """Writes a model as google-research/albert's code restores it, beside its albert_config.json.

    Args:
      model: one of ours.
      folder: where to; it exists.
      step: training step, which Estimators look for.
    Raises: as `google_config`; OSError or tf.errors.OpError if a file cannot be written.
    """
    write_json(folder / GOOGLE_FILE, google_config(model.config))
    names = {names.ours: names.google.name for names in variable_names(model.config, task_of(model))}
    tensors = {names[variable.name.partition(":")[0]]: variable.read_value() for variable in model.variables}
    tensors["global_step"] = tf.constant(step, tf.int64)
    tf.raw_ops.SaveV2(
        prefix=str(folder / CHECKPOINT),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
