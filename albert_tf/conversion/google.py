"""Reads and writes checkpoints of google-research/albert and google-research/bert; reads TF Hub modules."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf
from absl import logging
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from albert_tf.config import GOOGLE_BERT_FILE, GOOGLE_FILE, AlbertConfig
from albert_tf.conversion.name_mapping import GOOGLE_SCOPE, head_names, variable_map
from albert_tf.conversion.transfer import (
    ForeignModel,
    check_groups,
    find_single_file,
    find_vocabulary,
    infer_task,
    to_layer_groups,
    with_usual_names,
)
from albert_tf.errors import InputError
from albert_tf.io import write_local_json
from albert_tf.runs.build_model import task_of
from albert_tf.runs.checkpoints import CheckpointTensors, open_checkpoint
from albert_tf.text.tokenizer_config import TOKENIZER_FILE, resolve_settings

# Names of the files of published checkpoints.
GOOGLE_CHECKPOINT, GOOGLE_VOCABULARY = "model.ckpt-best", "30k-clean.model"
BERT_CHECKPOINT = "bert_model.ckpt"

# Variables of the training state, besides the weights and their slots.
_TRAINING_STATE = re.compile(
    r"(.*/)?(global_step|save_counter|beta[12]_power|(current_)?loss_scale|good_steps)(_\d+)?"
)

# Config fields missing in both of Google's formats, and fields missing only in BERT's.
_NOT_IN_GOOGLE = ("sharing", "layer_norm_eps", "project_embeddings", "position_offset", "pooler")
_NOT_IN_BERT = ("embedding_size", "num_hidden_groups", "inner_group_num", "classifier_dropout_prob")

_PRETRAINER = {"model": "pretrainer", "sentence_objective": "sop"}


def open_google_checkpoint(path: Path, config: Path | None, partial: bool) -> ForeignModel:
    """Opens the checkpoint in a folder, or at a prefix with or without `.index` or `.data-…`."""
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        prefix = find_single_file(path, "*.index", "variables/*.index").with_suffix("")
    else:
        prefix = path.with_name(re.sub(r"\.(index|data-\d+-of-\d+)$", "", path.name))
    tensors = open_checkpoint(prefix)
    config = config or find_single_file(
        folder, "albert_config*.json", "assets/albert_config*.json", GOOGLE_BERT_FILE
    )
    return open_tf1_variables(tensors, AlbertConfig.from_json_file(config), partial, find_vocabulary(folder))


def open_tf1_variables(
    tensors: CheckpointTensors, config: AlbertConfig, partial: bool, vocabulary: Path | None
) -> ForeignModel:
    """Opens a TF1 checkpoint of ALBERT or BERT, or the variables of a TF1 module of TF Hub.

    A checkpoint without heads is an encoder. With the output layer of run_classifier, run_race (one logit:
    read as regression), run_squad_v1 or run_squad_v2 it is a fine-tuned model, and its pre-training heads
    are ignored.
    """
    if any("/layer_shared/" in name for name in tensors.shapes):
        raise InputError(f"{tensors.origin}: the layout is that of brightmart/albert_zh, another network")
    # Modules of hub_export have ALBERT's names for every family.
    family = "albert" if any("/transformer/group_" in name for name in tensors.shapes) else config.family
    if family != "bert" and any("/encoder/layer_0/" in name for name in tensors.shapes):
        raise InputError(f"{tensors.origin}: the layout is that of BERT, its config is {GOOGLE_BERT_FILE}")
    tensors = with_usual_names(tensors, GOOGLE_SCOPE, "embeddings/word_embeddings")
    tensors = tensors.rename(_layer_norm_names(tensors.shapes))
    task = {"model": "encoder"} if partial else infer_task(tensors, "google", family)
    if config.family == "bert" and task.get("sentence_objective") == "sop":
        task["sentence_objective"] = "nsp"
    if family != "bert" and config.embedding_size == config.hidden_size:
        projects = f"{GOOGLE_SCOPE}encoder/embedding_hidden_mapping_in/kernel" in tensors.shapes
        config = config.replace(project_embeddings=projects or None)
    check_groups(config, _google_group)
    is_fine_tuned = task["model"] not in ("encoder", "pretrainer")
    ignored = set(head_names("google", _PRETRAINER)) if is_fine_tuned else set()

    def is_ignored(name: str) -> bool:
        is_slot = name.rpartition("/")[0] in tensors.shapes
        return is_slot or _TRAINING_STATE.fullmatch(name) is not None or name in ignored

    variables = variable_map("google", config, task, family)
    return ForeignModel(tensors, config, task, variables, vocabulary, is_ignored=is_ignored)


def _layer_norm_names(names: Iterable[str]) -> dict[str, str]:
    """Maps usual names to the names here, since Keras numbers LayerNorms over the whole network.

    >>> _layer_norm_names(["layer_1/layer_normalization_9/beta", "layer_1/layer_normalization_10/beta"])
    {'layer_1/LayerNorm/beta': 'layer_1/layer_normalization_9/beta', 'layer_1/LayerNorm_1/beta': \
'layer_1/layer_normalization_10/beta'}
    """
    usual_names = {name: name for name in names}
    matches = [re.fullmatch(r"(.*/)layer_normalization(?:_(\d+))?/(.+)", name) for name in usual_names]
    norms = sorted((match[1], match[3], int(match[2] or 0), match[0]) for match in matches if match)
    for (scope, variable), group in itertools.groupby(norms, key=lambda entry: entry[:2]):
        for index, (*_, name) in enumerate(group):
            usual_names[f"{scope}LayerNorm{f'_{index}' if index else ''}/{variable}"] = usual_names.pop(name)
    return usual_names


def _google_group(layer: int, layers: int, groups: int) -> int:
    return int(layer / layers * groups)


def google_config(config: AlbertConfig) -> dict[str, Any]:
    """The content of albert_config.json, or of bert_config.json for a BERT.

    Raises:
      InputError: the code of google-research/albert or google-research/bert cannot express this network.
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
    values = (config if is_bert else to_layer_groups(config, _google_group)).to_dict()
    unknown = {*_NOT_IN_GOOGLE, *(_NOT_IN_BERT if is_bert else ())}
    return {key: value for key, value in values.items() if key not in unknown}


def write_google(model: Any, folder: Path, step: int) -> None:
    """Writes a checkpoint for google-research/albert or google-research/bert, and its config.

    Args:
      model: a model of this package.
      folder: an existing folder for the files.
      step: training step; Estimators read it.
    Raises:
      InputError: the code of google-research cannot express this network.
      OSError, tf.errors.OpError: a file cannot be written.
    """
    is_bert = model.config.family == "bert"
    write_local_json(folder / (GOOGLE_BERT_FILE if is_bert else GOOGLE_FILE), google_config(model.config))
    usual = "nsp" if is_bert else "sop"
    if (objective := getattr(model, "sentence_objective", usual)) not in (usual, "none"):
        taken = f"{model.config.family}'s code takes it for {usual}"
        logging.warning("the sentence head was trained by %s, and %s", objective, taken)
    google = variable_map("google", model.config, task_of(model))
    tensors = {google[x.name.partition(":")[0]].name: x.read_value() for x in model.variables}
    tensors["global_step"] = tf.constant(step, tf.int64)
    tf.raw_ops.SaveV2(
        prefix=str(folder / (BERT_CHECKPOINT if is_bert else GOOGLE_CHECKPOINT)),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


# The entry of a TF 2 checkpoint that describes its objects.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ANCHOR = "word_embeddings/embeddings"
_LAYER = "transformer/layer_0/"  # prefix of BERT's first layer
_LOWERCASE = "Variable"  # in a TF 2 module: True if its text is lowercased, without accents

# Fields of the config that follow from a shape: the name of the variable, and the axis.
_SIZES = {
    "vocab_size": (_ANCHOR, 0),
    "embedding_size": (_ANCHOR, 1),
    "max_position_embeddings": ("position_embedding/embeddings", 0),
    "type_vocab_size": ("type_embeddings/embeddings", 0),
    "hidden_size": ("transformer/self_attention/query/kernel", 0),
    "num_attention_heads": ("transformer/self_attention/query/kernel", 1),
    "intermediate_size": ("transformer/intermediate/kernel", 1),
}
_ACTIVATIONS = {"Tanh": "gelu", "Erf": "gelu_erf", "Relu": "relu"}


def open_hub_module(path: Path, config: Path | None, partial: bool) -> ForeignModel:
    """Opens the module in a folder. Without a config, the config of a TF 2 encoder is deduced."""
    saved_model = find_single_file(path, "saved_model.pb")
    config = config or next(path.glob("assets/albert_config*.json"), None)
    shape = AlbertConfig.from_json_file(config) if config else None
    tensors = open_checkpoint(path / "variables" / "variables")
    lowercase = None
    if _OBJECTS in tensors.shapes:
        tensors = _rename_to_variables(tensors)
        if _LOWERCASE in tensors.shapes:
            lowercase = bool(tensors.read(_LOWERCASE))
            tensors = tensors.rename({name: name for name in tensors.shapes if name != _LOWERCASE})
    anchor = next((name for name in tensors.shapes if f"/{name}".endswith(f"/{_ANCHOR}")), None)
    if anchor is not None:
        prefix = anchor.removesuffix(_ANCHOR)
        tensors = tensors.rename({name.removeprefix(prefix): name for name in tensors.shapes})
        source = _open_hub_encoder(tensors, shape or deduce_config(tensors, saved_model))
    elif shape is not None:  # a TF 1 module, or one of hub_export: both have google-research/albert's names
        source = open_tf1_variables(tensors, shape, partial, None)
    else:
        raise InputError(f"{tensors.origin} does not tell its config: name it with `config`")
    settings = path / "assets" / TOKENIZER_FILE  # only modules of hub_export have it
    tokenizer = resolve_settings(settings) if settings.exists() else None
    if tokenizer is None and lowercase is not None:
        tokenizer = {"lowercase": lowercase, "strip_accents": lowercase}
    return source._replace(vocabulary=find_vocabulary(path), tokenizer=tokenizer)


def _open_hub_encoder(tensors: CheckpointTensors, config: AlbertConfig) -> ForeignModel:
    """Maps the variables of a TF 2 encoder of TensorFlow Model Garden."""
    sharing = _infer_sharing(tensors)
    if config.sharing != sharing or config.num_hidden_groups * config.inner_group_num != 1:
        layers = {"all": "share one block", "none": "share nothing"}[sharing]
        remedy = f"name a config with sharing={sharing!r}, num_hidden_groups=1"
        raise InputError(f"layers of {tensors.origin} {layers}: {remedy}")
    task = {"model": "encoder"}
    variables = variable_map("hub", config, task)
    known = variable_map("hub", config.with_pooler(), task)
    scopes = {variable.name.partition("/")[0] for variable in known.values()}

    def is_of_head(name: str) -> bool:  # of masked tokens, in published modules
        return name.partition("/")[0] not in scopes

    return ForeignModel(tensors, config, task, variables, None, is_ignored=is_of_head)


def _infer_sharing(tensors: CheckpointTensors) -> str:
    """The config's `sharing`: "none" for BERT's encoders, whose layers are numbered; "all" for ALBERT's."""
    return "none" if any(name.startswith(_LAYER) for name in tensors.shapes) else "all"


def _rename_to_variables(tensors: CheckpointTensors) -> CheckpointTensors:
    """Renames the tensors of a TF 2 checkpoint from their paths in the objects to the variables' names."""
    try:
        graph = TrackableObjectGraph.FromString(tensors.read(_OBJECTS))
    except (DecodeError, TypeError) as error:
        raise InputError(f"{tensors.origin}: its list of objects is damaged: {error}") from error
    return tensors.rename(
        {
            attribute.full_name: attribute.checkpoint_key
            for node in graph.nodes
            for attribute in node.attributes
            if attribute.checkpoint_key in tensors.shapes and attribute.name == "VARIABLE_VALUE"
        }
    )


def deduce_config(tensors: CheckpointTensors, saved_model: Path) -> AlbertConfig:
    """The config of a TF 2 encoder, without dropout: sizes from shapes, depth and activation from the graph.

    Raises:
      InputError: a field cannot be deduced; the message names it.
    """
    sharing = _infer_sharing(tensors)
    values: dict[str, Any] = {"sharing": sharing}
    for field, (name, axis) in _SIZES.items():
        name = name if sharing == "all" else name.replace("transformer/", _LAYER)
        if len(tensors.shapes.get(name, ())) > axis:
            values[field] = tensors.shapes[name][axis]
    depths, activations = _read_graph(saved_model)
    if len(depths) == 1:
        values["num_hidden_layers"] = depths.pop()
    if len(activations) == 1:
        values["hidden_act"] = activations.pop()
    if missing := [field for field in (*_SIZES, "num_hidden_layers", "hidden_act") if field not in values]:
        raise InputError(f"{saved_model} does not tell {', '.join(missing)}: name a file with `config`")
    is_square = values["embedding_size"] == values["hidden_size"]
    projects = is_square and "embedding_projection/kernel" in tensors.shapes
    return AlbertConfig(**values, project_embeddings=projects or None)


def _read_graph(path: Path) -> tuple[set[int], set[str]]:
    """All depths and activations in the graph of a TF 2 encoder."""
    try:
        module = SavedModel.FromString(path.read_bytes())
    except DecodeError as error:
        raise InputError(f"{path} is not a SavedModel, or damaged: {error}") from error
    depths, operations = set(), set()
    for meta_graph in module.meta_graphs:
        for function in meta_graph.object_graph_def.concrete_functions.values():
            outputs = function.output_signature.dict_value.fields
            if "encoder_outputs" in outputs:
                depths.add(len(outputs["encoder_outputs"].list_value.values))
        for definition in meta_graph.graph_def.library.function:
            nodes = definition.node_def
            operations |= {node.op for node in nodes if "Gelu" in node.name or node.op == "Relu"}
    return depths, {name for operation, name in _ACTIVATIONS.items() if operation in operations}
