"""Modules of TF Hub: the variables of TF 1 modules, and TF 2 encoders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

from albert_tf.checkpoints.names import hub_letters, variable_names
from albert_tf.config import AlbertConfig
from albert_tf.conversion.google import google_source
from albert_tf.conversion.transfer import Prefix, Source, Tensors, Wanted, find_prefix
from albert_tf.utils.errors import InputError

# What a TF 2 checkpoint calls the description of its own objects.
_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_ANCHOR = "word_embeddings/embeddings"

# The fields of a config that shapes tell, by their letters.
_FIELDS = {
    "V": "vocab_size",
    "E": "embedding_size",
    "S": "max_position_embeddings",
    "T": "type_vocab_size",
    "H": "hidden_size",
    "I": "intermediate_size",
    "N": "num_attention_heads",
}


def hub_source(
    tensors: Tensors, saved_model: Path, config: AlbertConfig | None, partial: bool, vocabulary: Path | None
) -> Source:
    """The variables of a module.

    Args:
      tensors: its `variables/variables`.
      saved_model: its `saved_model.pb`, which is read, not run.
      config: the network's shape; None deduces that of a TF 2 encoder.
      partial: True if variables may be missing.
      vocabulary: its asset.
    Returns:
      What to compare and to read.
    Raises:
      ValueError: the module is damaged, or does not tell all of its config.
    """
    if _OBJECTS in tensors.shapes:
        tensors = _by_variable_name(tensors)
    if not any(name == _ANCHOR or name.endswith(f"/{_ANCHOR}") for name in tensors.shapes):
        # A TF 1 module, or one of hub_export: both have google-research/albert's names.
        if config is None:
            raise InputError(f"{tensors.origin} does not tell its config: name it with --config")
        return google_source(tensors, config, partial, vocabulary)
    prefix = find_prefix(tensors, "", _ANCHOR)
    config = config or deduce_config(tensors, prefix, saved_model)
    if config.sharing != "all" or config.num_hidden_groups * config.inner_group_num != 1:
        raise InputError(f"{tensors.origin} shares one block: the config must, too (num_hidden_groups=1)")
    task = {"model": "encoder"}
    wanted = {
        names.ours: Wanted(f"{prefix.encoder}{names.hub}", names.hub_shape, names.from_hub)
        for names in variable_names(config, task)
    }
    return Source(tensors, config, task, wanted, lambda name: False, vocabulary)


def _by_variable_name(tensors: Tensors) -> Tensors:
    """The variables of a TF 2 checkpoint by their names instead of their places in the objects."""
    graph = TrackableObjectGraph()
    try:
        graph.ParseFromString(tensors.read(_OBJECTS))
    except (DecodeError, TypeError) as error:
        raise InputError(f"{tensors.origin}: its list of objects is damaged: {error}") from error
    keys = {
        attribute.full_name: attribute.checkpoint_key
        for node in graph.nodes
        for attribute in node.attributes
        if attribute.checkpoint_key in tensors.shapes and attribute.name == "VARIABLE_VALUE"
    }
    return Tensors(
        tensors.origin,
        {name: tensors.shapes[key] for name, key in keys.items()},
        {name: tensors.dtypes[key] for name, key in keys.items()},
        lambda name: tensors.read(keys[name]),
    )


def deduce_config(tensors: Tensors, prefix: Prefix, saved_model: Path) -> AlbertConfig:
    """The config of a TF 2 encoder: sizes from shapes, depth and activation from the graph.

    Args:
      tensors: its variables, by name.
      prefix: what stands before the names.
      saved_model: its `saved_model.pb`.
    Returns:
      The config, without dropout.
    Raises:
      ValueError: it cannot be told; the message says why.
    """
    size: dict[str, int] = {}
    for name, letters in hub_letters().items():
        shape = tensors.shapes.get(prefix.encoder + name, ())
        # What is missing, or differs, is found when all is compared.
        if len(shape) == len(letters):
            size = {**dict(zip(letters, shape, strict=True)), **size}
    missing = sorted(field for letter, field in _FIELDS.items() if letter not in size)
    if missing:
        raise InputError(f"{tensors.origin} does not tell {', '.join(missing)}: name it with --config")
    graph = _read_graph(saved_model)
    if graph.layers is None or graph.activation is None:
        lacking = "num_hidden_layers" if graph.layers is None else "hidden_act"
        raise InputError(f"{saved_model} does not tell {lacking}: name a config with --config")
    has_projection = f"{prefix.encoder}embedding_projection/kernel" in tensors.shapes
    values: dict[str, Any] = {field: size[letter] for letter, field in _FIELDS.items()}
    return AlbertConfig(
        **values,
        num_hidden_layers=graph.layers,
        hidden_act=graph.activation,
        project_embeddings=True if has_projection and size["E"] == size["H"] else None,
    )


class Graph(NamedTuple):
    """Depth and activation, as far as the graph of a TF 2 encoder shows them."""

    layers: int | None
    activation: str | None


def _read_graph(path: Path) -> Graph:
    module = SavedModel()
    try:
        module.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise InputError(f"{path} is not a SavedModel, or damaged: {error}") from error
    depths, operations = set(), set()
    for meta_graph in module.meta_graphs:
        for function in meta_graph.object_graph_def.concrete_functions.values():
            outputs: Mapping = function.output_signature.dict_value.fields
            if "encoder_outputs" in outputs:
                depths.add(len(outputs["encoder_outputs"].list_value.values))
        for definition in meta_graph.graph_def.library.function:
            operations |= {
                node.op for node in definition.node_def if "Gelu" in node.name or node.op == "Relu"
            }
    activations = {"Tanh": "gelu", "Erf": "gelu_erf", "Relu": "relu"}
    found = [activation for operation, activation in activations.items() if operation in operations]
    return Graph(depths.pop() if len(depths) == 1 else None, found[0] if len(found) == 1 else None)
