"""Sharing of parameters in the terms of other implementations."""

from __future__ import annotations

from collections.abc import Callable

from albert_tf.config import AlbertConfig
from albert_tf.utils.errors import InputError


def whole_layers(config: AlbertConfig) -> AlbertConfig:
    """The same network for formats whose layers share both blocks or none: "none" is a group a layer.

    Raises:
      ValueError: layers share one of the two blocks.
    """
    if config.sharing in ("attention", "ffn"):
        raise InputError(f'sharing="{config.sharing}" has no form there: layers share both blocks or none')
    if config.sharing == "all":
        return config
    return config.replace(sharing="all", num_hidden_groups=config.num_hidden_layers)


def grouping_problems(config: AlbertConfig, group: Callable[[int, int, int], int]) -> list[str]:
    """The layers that other code puts into another group, since it computes with fractions.

    Args:
      config: the network's shape, of whole layers.
      group: the group of a layer there, from the layer's index, L and G.
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    return [
        f"layer {layer} of {layers} would be in group {group(layer, layers, groups)} of {groups} there, by a "
        f"rounding error, not in {layer * groups // layers}"
        for layer in range(layers)
        if group(layer, layers, groups) != layer * groups // layers
    ]
