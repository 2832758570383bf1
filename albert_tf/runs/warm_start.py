"""A run's weights as the start of another network: deeper or shallower, of other groups, of other lengths.

ALBERT's layers share their weights, so that a layer more needs none of its own: the paper trains its deeper
networks from the shallower ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.io import PathLike
from albert_tf.models.sharing import sharing_plan
from albert_tf.runs.run_directory import open_run
from albert_tf.runs.variable_names import variable_names

# Keys in which two networks may differ. All others decide a variable's shape, or what is done with it.
_FREE = (
    *("num_hidden_layers", "num_hidden_groups", "sharing", "max_position_embeddings", "initializer_range"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob", "pooler"),
)
_LAYERS = "encoder/transformer/"  # the beginning of the names of their variables


class WarmStart(NamedTuple):
    """The start of each variable of a network."""

    read: Callable[[str], np.ndarray | None]  # the value of a variable; None if it starts at random
    origins: Mapping[str, str]  # the variables that are copied, and the name of each in the run
    positions: tuple[int, int]  # those of the run, and of the network
    fresh: tuple[str, ...]  # variables that start at random
    unread: tuple[str, ...]  # variables of the run that nothing is copied from
    unread_layers: tuple[int, ...]  # layers of the run, from 1, with a block that is among them

    def listing(self) -> list[str]:
        """A line for each thing that there is to say; the layers' variables by group."""
        moves: dict[str, set[str]] = {}
        for name, origin in self.origins.items():
            moves.setdefault(_part(origin), set()).add(_part(name))
        moves = {origin: parts for origin, parts in moves.items() if parts != {origin}}
        has, wants = self.positions
        return [
            f"copied: {len(self.origins)} variables",
            *(f"copied: {origin} to {', '.join(sorted(parts))}" for origin, parts in moves.items()),
            *([f"positions: {has} in the run, {wants} here"] if has != wants else []),
            *(f"fresh: {name}" for name in self.fresh),
            *(f"not copied: {name}" for name in self.unread if not name.startswith(_LAYERS)),
            *([f"not copied: {_numbered(self.unread_layers)}"] if self.unread_layers else []),
        ]


def _part(name: str) -> str:
    """The group of a variable of the layers; of others the name itself."""
    return name.split("/")[2] if name.startswith(_LAYERS) else name


def _numbered(layers: Sequence[int]) -> str:
    """Layers in words.

    >>> [_numbered(layers) for layers in ([4], [2, 4], [7, 8, 9])]
    ['layer 4', 'layers 2, 4', 'layers 7 to 9']
    """
    is_range = len(layers) > 2 and layers[-1] - layers[0] == len(layers) - 1
    numbers = f"{layers[0]} to {layers[-1]}" if is_range else ", ".join(map(str, layers))
    return f"layer{'s' if len(layers) > 1 else ''} {numbers}"


def _layers_of(names: Sequence[str], config: AlbertConfig) -> tuple[int, ...]:
    """The layers of a network, from 1, that have variables of these names in a block."""
    scopes = {block_scope(name) for name in names}
    found = {
        index // config.inner_group_num + 1
        for index, (attention, ffn) in enumerate(sharing_plan(config))
        if scopes & {f"{attention.scope()}/attention_1", f"{ffn.scope()}/ffn_1"}
    }
    return tuple(sorted(found))


def warm_start_from(
    run: PathLike, config: AlbertConfig, task: Mapping[str, Any], *, extend_positions: bool = False
) -> WarmStart:
    """The weights of the checkpoint that `load` takes of a run, for a network of the same widths.

    Layer l of L takes its blocks from layer l · M // L of the run's M layers: the blocks that its own plan of
    sharing gives it, from those that the run's plan gives that layer. A block that several layers share is
    copied for the first of them. Positions that the run lacks begin as copies of those that it has, from the
    first on (Beltagy et al. 2020, Longformer, §5). A pooler of another activation begins at random; segment
    types are left out where the network has none, and exits of another depth. A head, but that for masked
    tokens, is copied only if it has learned the same: the same sentence objective, or task, labels and
    pooling. Nothing large is read yet.

    Args:
      run: the run directory.
      config: of the network to be.
      task: of the network to be, as task.json has it.
      extend_positions: allow the network more positions than the run.
    Raises: as `load` does; ValueError, too, where the widths differ or there are more positions.
    """
    source = open_run(run)
    variables = source.variables()
    if differing := config_differences(source.config, config):
        raise InputError(
            f"{run} is of another network: {'; '.join(differing)}. Only depth, groups, sharing, positions, "
            "dropout and the pooler may differ, and the network may have no segment types"
        )
    has, wants = source.config.max_position_embeddings, config.max_position_embeddings
    if wants > has and not extend_positions:
        raise InputError(f"max_position_embeddings={wants}: {run} has {has}, --extend_positions copies them")
    wanted = {names.ours: names.shape for names in variable_names(config, task)}
    blocks = block_origins(source.config, config)
    origins = {}
    for name in wanted:
        scope = block_scope(name)
        origin = blocks.get(scope, [scope])[0] + name.removeprefix(scope)
        is_other = name.startswith("pooler/") and source.config.pooler != config.pooler
        if name.startswith("exits/"):  # of each layer
            is_other = source.shapes.get(name) != wanted[name]
        if origin in source.shapes and not is_other and _is_same(source.task, task, name):
            origins[name] = origin

    def read(name: str) -> np.ndarray | None:
        value = variables(origins[name]) if name in origins else None
        if value is None or name != "embeddings/position_embeddings":
            return value
        before, rows = np.split(value, [config.position_offset])  # positions begin after the offset
        return np.concatenate([before, np.resize(rows, [wants, *rows.shape[1:]])])  # which repeats the rows

    unread = tuple(sorted(source.shapes.keys() - set(origins.values())))
    return WarmStart(
        read=read,
        origins=origins,
        positions=(has, wants),
        fresh=tuple(name for name in wanted if name not in origins),
        unread=unread,
        unread_layers=_layers_of(unread, source.config),
    )


def config_differences(source: AlbertConfig, config: AlbertConfig) -> list[str]:
    """The keys in which a network differs so from another that it cannot begin with its weights."""
    here, there = ({**c.to_dict(), "project_embeddings": c.has_projection} for c in (config, source))
    return [
        f"{name} is {there[name]!r} there and {value!r} here"
        for name, value in here.items()
        if name not in _FREE and there[name] != value and (name, value) != ("type_vocab_size", 0)
    ]


def _is_same(source: Mapping[str, Any], task: Mapping[str, Any], name: str) -> bool:
    """True unless a variable is of a head that has learned something else than it is to learn."""
    if name.startswith(("embeddings/", "encoder/", "pooler/", "cls/predictions/")):
        return True
    of_sentences = name.startswith("cls/seq_relationship/")
    decisive = ["sentence_objective"] if of_sentences else ["model", "task", "labels", "pooling"]
    return all(source.get(key) == task.get(key) for key in decisive)


def block_origins(source: AlbertConfig, config: AlbertConfig) -> dict[str, list[str]]:
    """The scope of every block of a network, and of the blocks of the source in the layers that it is of.

    >>> bert = AlbertConfig(num_hidden_layers=4, sharing="none")
    >>> origins = block_origins(bert, bert.replace(sharing="all", num_hidden_groups=2))
    >>> [scope.split("/")[2] for scope in origins["encoder/transformer/group_1/inner_group_0/ffn_1"]]
    ['group_2', 'group_3']
    """
    plan, source_plan, inner = sharing_plan(config), sharing_plan(source), config.inner_group_num
    origins: dict[str, list[str]] = {}
    for index, pair in enumerate(plan):
        layer = index // inner * source.num_hidden_layers // config.num_hidden_layers
        origin = source_plan[layer * inner + index % inner]
        for here, there, parts in (
            (pair.attention, origin.attention, ("attention_1", "LayerNorm")),
            (pair.feed_forward, origin.feed_forward, ("ffn_1", "LayerNorm_1")),
        ):
            for part in parts:
                origins.setdefault(f"{here.scope()}/{part}", []).append(f"{there.scope()}/{part}")
    return origins


def block_scope(name: str) -> str:
    """The part of a variable's name that `block_origins` knows, where it is of a block.

    >>> block_scope("encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/bias")
    'encoder/transformer/group_0/inner_group_0/ffn_1'
    """
    return "/".join(name.split("/")[:5])
