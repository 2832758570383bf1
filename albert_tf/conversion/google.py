"""Checkpoints of google-research/albert and google-research/bert (TensorFlow 1), in and out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.config import GOOGLE_BERT_FILE, GOOGLE_FILE, AlbertConfig
from albert_tf.conversion.transfer import (
    ForeignModel,
    check_groups,
    find_only,
    find_vocabulary,
    infer_task,
    whole_layers,
    with_usual_names,
)
from albert_tf.errors import InputError
from albert_tf.io import write_local_json
from albert_tf.runs.build_model import task_of
from albert_tf.runs.checkpoints import CheckpointTensors, open_checkpoint
from albert_tf.runs.variable_names import GOOGLE_SCOPE, head_names, variable_names

# What a published checkpoint consists of, beside its vocabulary.
GOOGLE_CHECKPOINT, GOOGLE_VOCABULARY = "model.ckpt-best", "30k-clean.model"
BERT_CHECKPOINT = "bert_model.ckpt"

# What training leaves beside the weights and their slots.
_TRAINING = re.compile(
    r"(.*/)?(global_step|save_counter|beta[12]_power|(current_)?loss_scale|good_steps)(_\d+)?"
)

# Fields that ALBERT's configs do not have, and that BERT's do not have besides.
_UNKNOWN = ("sharing", "layer_norm_eps", "project_embeddings", "position_offset", "pooler")
_UNKNOWN_TO_BERT = ("embedding_size", "num_hidden_groups", "inner_group_num", "classifier_dropout_prob")

_PRETRAINER = {"model": "pretrainer", "sentence_objective": "sop"}


def google_source(path: Path, config: Path | None, partial: bool) -> ForeignModel:
    """A checkpoint in a folder, or the checkpoint itself, with or without `.index` or `.data-…`."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        prefix = find_only(path, "*.index", "variables/*.index").with_suffix("")
    else:
        prefix = path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", path.name))
    tensors = open_checkpoint(prefix)
    config = config or find_only(
        folder, "albert_config*.json", "assets/albert_config*.json", GOOGLE_BERT_FILE
    )
    return bundle_source(tensors, AlbertConfig.from_json_file(config), partial, find_vocabulary(folder))


def bundle_source(
    tensors: CheckpointTensors, config: AlbertConfig, partial: bool, vocabulary: Path | None
) -> ForeignModel:
    """A TF1 checkpoint of ALBERT or BERT, or the variables of a TF1 module of TF Hub.

    Without heads it is an encoder; with the output layer of run_classifier, run_race (one logit: as a
    regression), run_squad_v1 or run_squad_v2 a fine-tuned model, whose pre-training heads are left unread.
    """
    if any("/layer_shared/" in name for name in tensors.shapes):
        raise InputError(f"{tensors.origin}: the layout is that of brightmart/albert_zh, another network")
    # Modules that are made here have ALBERT's names, whatever their family.
    family = "albert" if any("/transformer/group_" in name for name in tensors.shapes) else config.family
    if family != "bert" and any("/encoder/layer_0/" in name for name in tensors.shapes):
        raise InputError(f"{tensors.origin}: the layout is that of BERT, its config is {GOOGLE_BERT_FILE}")
    tensors = with_usual_names(tensors, GOOGLE_SCOPE, "embeddings/word_embeddings")
    tensors = tensors.renamed(_with_layer_norms(tensors.shapes))
    task = {"model": "encoder"} if partial else infer_task(tensors, "google", family)
    if family != "bert" and config.embedding_size == config.hidden_size:
        projects = f"{GOOGLE_SCOPE}encoder/embedding_hidden_mapping_in/kernel" in tensors.shapes
        config = config.replace(project_embeddings=projects or None)
    check_groups(config, _group)
    is_fine_tuned = task["model"] not in ("encoder", "pretrainer")
    ignored = {head.google.name for head in head_names(_PRETRAINER)} if is_fine_tuned else set()

    def is_ignored(name: str) -> bool:
        is_slot = name.rpartition("/")[0] in tensors.shapes
        return is_slot or _TRAINING.fullmatch(name) is not None or name in ignored

    stored = {names.ours: names.google for names in variable_names(config, task, family)}
    return ForeignModel(tensors, config, task, stored, vocabulary, is_ignored=is_ignored)


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
    """The content of albert_config.json, or of BERT's bert_config.json.

    Raises:
      InputError: google-research/albert, or google-research/bert, cannot express this network.
    """
    if config.family in ("roberta", "distilbert"):
        raise InputError(f"{config.family} has no such format: Google published ALBERT and BERT in it")
    projects = config.has_projection and config.embedding_size == config.hidden_size
    differing = {
        "hidden_act": ("the tanh form of GELU", config.hidden_act == "gelu_erf"),
        "layer_norm_eps": ("1e-12", config.layer_norm_eps != 1e-12),
        "pooler": ("tanh", config.pooler != "tanh"),
        "position_offset": ("0", config.position_offset != 0),
        "type_vocab_size": ("segment types", not config.type_vocab_size),
        "project_embeddings": ("a projection only where embedding_size and hidden_size differ", projects),
    }
    for key, (has, differs) in differing.items():
        if differs:
            value = getattr(config, key)
            raise InputError(f"google-research/{config.family} cannot express {key}={value!r}: it has {has}")
    is_bert = config.family == "bert"
    values = (config if is_bert else whole_layers(config, _group)).to_dict()
    unknown = {*_UNKNOWN, *(_UNKNOWN_TO_BERT if is_bert else ())}
    return {key: value for key, value in values.items() if key not in unknown}


def write_google(model: Any, folder: Path, step: int) -> None:
    """Writes a model as google-research/albert's or bert's code restores it, beside its config.

    Args:
      model: one of ours.
      folder: where to; it exists.
      step: training step, which Estimators look for.
    Raises: as `google_config`; OSError or tf.errors.OpError if a file cannot be written.
    """
    is_bert = model.config.family == "bert"
    write_local_json(folder / (GOOGLE_BERT_FILE if is_bert else GOOGLE_FILE), google_config(model.config))
    names = {names.ours: names.google.name for names in variable_names(model.config, task_of(model))}
    tensors = {names[variable.name.partition(":")[0]]: variable.read_value() for variable in model.variables}
    tensors["global_step"] = tf.constant(step, tf.int64)
    tf.raw_ops.SaveV2(
        prefix=str(folder / (BERT_CHECKPOINT if is_bert else GOOGLE_CHECKPOINT)),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
