"""Modules of TF Hub: the variables of TF 1 modules, and TF 2 encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from albert_tf.config import AlbertConfig
from albert_tf.conversion.google import bundle_source
from albert_tf.conversion.transfer import ForeignModel, find_only, find_vocabulary
from albert_tf.errors import InputError
from albert_tf.runs.checkpoints import CheckpointTensors, open_checkpoint
from albert_tf.runs.variable_names import variable_names
from albert_tf.text.tokenizer_config import TOKENIZER_FILE, resolve_settings

# What a TF 2 checkpoint calls the description of its own objects.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ANCHOR = "word_embeddings/embeddings"
_LAYER = "transformer/layer_0/"  # where the names of BERT's first layer begin
_LOWERCASE = "Variable"  # beside a TF 2 module's weights: True if its text is in lower case, without accents

# The sizes of a config that shapes tell: a variable, and its axis.
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


def hub_source(path: Path, config: Path | None, partial: bool) -> ForeignModel:
    """The variables of the module in a folder; without a config, that of a TF 2 encoder is deduced."""
    saved_model = find_only(path, "saved_model.pb")
    config = config or next(path.glob("assets/albert_config*.json"), None)
    shape = AlbertConfig.from_json_file(config) if config else None
    tensors = open_checkpoint(path / "variables" / "variables")
    lowercase = None
    if _OBJECTS in tensors.shapes:
        tensors = _by_variable_name(tensors)
        if _LOWERCASE in tensors.shapes:
            lowercase = bool(tensors.read(_LOWERCASE))
            tensors = tensors.renamed({name: name for name in tensors.shapes if name != _LOWERCASE})
    anchor = next((name for name in tensors.shapes if f"/{name}".endswith(f"/{_ANCHOR}")), None)
    if anchor is not None:
        prefix = anchor.removesuffix(_ANCHOR)
        tensors = tensors.renamed({name.removeprefix(prefix): name for name in tensors.shapes})
        source = _encoder(tensors, shape or deduce_config(tensors, saved_model))
    elif shape is not None:  # a TF 1 module, or one of hub_export: both have google-research/albert's names
        source = bundle_source(tensors, shape, partial, None)
    else:
        raise InputError(f"{tensors.origin} does not tell its config: name it with --config")
    settings = path / "assets" / TOKENIZER_FILE  # which hub_export has written
    tokenizer = resolve_settings(settings) if settings.exists() else None
    if tokenizer is None and lowercase is not None:
        tokenizer = {"lowercase": lowercase, "strip_accents": lowercase}
    return source._replace(vocabulary=find_vocabulary(path), tokenizer=tokenizer)


def _encoder(tensors: CheckpointTensors, config: AlbertConfig) -> ForeignModel:
    """A TF 2 encoder of TensorFlow Model Garden."""
    sharing = _sharing(tensors)
    if config.sharing != sharing or config.num_hidden_groups * config.inner_group_num != 1:
        layers = {"all": "share one block", "none": "share nothing"}[sharing]
        wanted = f"name a config with sharing={sharing!r}, num_hidden_groups=1"
        raise InputError(f"layers of {tensors.origin} {layers}: {wanted}")
    task = {"model": "encoder"}
    stored = {names.ours: names.hub for names in variable_names(config, task)}
    return ForeignModel(tensors, config, task, stored, None)


def _sharing(tensors: CheckpointTensors) -> str:
    """The config's `sharing`: "none" of BERT's encoders, whose layers have numbers; "all" of ALBERT's."""
    return "none" if any(name.startswith(_LAYER) for name in tensors.shapes) else "all"


def _by_variable_name(tensors: CheckpointTensors) -> CheckpointTensors:
    """The variables of a TF 2 checkpoint by their names instead of their places in the objects."""
    try:
        graph = TrackableObjectGraph.FromString(tensors.read(_OBJECTS))
    except (DecodeError, TypeError) as error:
        raise InputError(f"{tensors.origin}: its list of objects is damaged: {error}") from error
    return tensors.renamed(
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
      InputError: it cannot be told; the message names what is lacking.
    """
    sharing = _sharing(tensors)
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
        raise InputError(f"{saved_model} does not tell {', '.join(missing)}: name a config with --config")
    is_square = values["embedding_size"] == values["hidden_size"]
    projects = is_square and "embedding_projection/kernel" in tensors.shapes
    return AlbertConfig(**values, project_embeddings=projects or None)


def _read_graph(path: Path) -> tuple[set[int], set[str]]:
    """Depths and activations that the graph of a TF 2 encoder shows."""
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
