"""Warm starts: a network of another depth, grouping or length begins with the weights of a run.

ALBERT's layers share their weights, so a further layer needs no weights of its own: the paper trains deeper
networks from shallower ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.io import PathLike
from albert_tf.models.sharing import sharing_plan
from albert_tf.runs.build_model import variable_shapes
from albert_tf.runs.run_directory import open_run

# Keys in which two networks may differ. All others change a variable's shape or its meaning.
_FREE = (
    *("num_hidden_layers", "num_hidden_groups", "sharing", "max_position_embeddings", "initializer_range"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout_prob", "pooler"),
)
_LAYERS = "encoder/transformer/"  # prefix of the variables of layers


class WarmStart(NamedTuple):
    """The initial value of each variable of a network."""

    read: Callable[[str], np.ndarray | None]  # the value of a variable; None if it is newly initialized
    origins: Mapping[str, str]  # copied variables, and their names in the run
    positions: tuple[int, int]  # number of trained positions of the run, and of positions of the network
    newly_initialized: tuple[str, ...]  # variables that start at random
    unused: tuple[str, ...]  # variables of the run that are not copied
    unused_layers: tuple[int, ...]  # layers of the run, from 1, with an unused block

    def listing(self) -> list[str]:
        """Log lines: what is copied, newly initialized and unused; the layers' variables by group."""
        moves: dict[str, set[str]] = {}
        for name, origin in self.origins.items():
            moves.setdefault(_part(origin), set()).add(_part(name))
        moves = {origin: parts for origin, parts in moves.items() if parts != {origin}}
        source_positions, positions = self.positions
        return [
            f"copied: {len(self.origins)} variables",
            *(f"copied: {origin} to {', '.join(sorted(parts))}" for origin, parts in moves.items()),
            *(
                [f"positions: {source_positions} in the run, {positions} here"]
                if source_positions != positions
                else []
            ),
            *(f"fresh: {name}" for name in self.newly_initialized),
            *(f"not copied: {name}" for name in self.unused if not name.startswith(_LAYERS)),
            *([f"not copied: {_describe_layers(self.unused_layers)}"] if self.unused_layers else []),
        ]

    def without_head(self) -> WarmStart:
        """The same, but the classifier and those of early exits start at random."""
        origins = {
            name: x for name, x in self.origins.items() if not name.startswith(("classifier/", "exits/"))
        }
        left = {name: x for name, x in self.origins.items() if name not in origins}
        return self._replace(
            read=lambda name: self.read(name) if name in origins else None,
            origins=origins,
            newly_initialized=(*self.newly_initialized, *left),
            unused=(*self.unused, *left.values()),
        )


def _part(name: str) -> str:
    """The group of a layer's variable; for other variables the name itself."""
    return name.split("/")[2] if name.startswith(_LAYERS) else name


def _describe_layers(layers: Sequence[int]) -> str:
    """Layers in words.

    >>> [_describe_layers(layers) for layers in ([4], [2, 4], [7, 8, 9])]
    ['layer 4', 'layers 2, 4', 'layers 7 to 9']
    """
    is_range = len(layers) > 2 and layers[-1] - layers[0] == len(layers) - 1
    numbers = f"{layers[0]} to {layers[-1]}" if is_range else ", ".join(map(str, layers))
    return f"layer{'s' if len(layers) > 1 else ''} {numbers}"


def _layers_of(names: Sequence[str], config: AlbertConfig) -> tuple[int, ...]:
    """The layers of a network, from 1, whose blocks have these variables."""
    scopes = {block_scope(name) for name in names}
    layers = {
        index // config.inner_group_num + 1
        for index, (attention, ffn) in enumerate(sharing_plan(config))
        if scopes & {f"{attention.scope()}/attention_1", f"{ffn.scope()}/ffn_1"}
    }
    return tuple(sorted(layers))


def warm_start_from(
    run: PathLike,
    config: AlbertConfig,
    task: Mapping[str, Any],
    *,
    extend_positions: bool = False,
    trained_positions: int | None = None,
) -> WarmStart:
    """Plans how a network of the same widths begins with the weights of a run.

    - Layer l of L is copied from layer l · M // L of the run's M layers. A block that several layers share is
      copied for the first of them.
    - Further positions are copies of the run's, from the first on (Beltagy et al. 2020, Longformer, §5).
    - A pooler with another activation begins at random. Segment types are left out if the network has none,
      and early exits if its depth differs.
    - The head for masked tokens is always copied, other heads only if they learned the same: the same
      sentence objective, or the same task, labels and pooling. A converted head has no task.

    Weights are read later, one by one.

    Args:
      run: the run directory. The checkpoint is the one that `load` chooses.
      config: architecture of the network.
      task: entries of the network's task.json.
      extend_positions: True to allow more positions than the run has.
      trained_positions: number of the run's positions that are trained; the others are copies of these, too.
        None: all.
    Raises:
      FileNotFoundError: the run or its checkpoint does not exist.
      InputError: a file of the run is damaged, the widths differ, or there are more positions.
    """
    source = open_run(run)
    variables = source.variables()
    if differing := config_differences(source.config, config):
        raise InputError(
            f"{run} is of another network: {'; '.join(differing)}. Only depth, groups, sharing, positions, "
            "dropout and the pooler may differ, and the network may have no segment types"
        )
    has, positions = source.config.max_position_embeddings, config.max_position_embeddings
    trained = has if trained_positions is None else trained_positions
    if positions > has and not extend_positions:
        raise InputError(
            f"max_position_embeddings={positions}: {run} has {has}, `extend_positions` copies them"
        )
    shapes = variable_shapes(config, task)
    blocks = block_origins(source.config, config)
    origins = {}
    for name in shapes:
        scope = block_scope(name)
        origin = blocks.get(scope, [scope])[0] + name.removeprefix(scope)
        is_other = name.startswith("pooler/") and source.config.pooler != config.pooler
        if name.startswith("exits/"):  # of each layer
            is_other = source.shapes.get(name) != shapes[name]
        if origin in source.shapes and not is_other and _has_same_purpose(source.task, task, name):
            origins[name] = origin

    def read(name: str) -> np.ndarray | None:
        value = variables(origins[name]) if name in origins else None
        if value is None or name != "embeddings/position_embeddings":
            return value
        before, rows = np.split(value, [config.position_offset])  # positions begin after the offset
        return np.concatenate([before, np.resize(rows[:trained], [positions, *rows.shape[1:]])])  # repeats

    unused = tuple(sorted(source.shapes.keys() - set(origins.values())))
    return WarmStart(
        read=read,
        origins=origins,
        positions=(trained, positions),
        newly_initialized=tuple(name for name in shapes if name not in origins),
        unused=unused,
        unused_layers=_layers_of(unused, source.config),
    )


def config_differences(source: AlbertConfig, config: AlbertConfig) -> list[str]:
    """The differences that prevent a network from starting with another's weights, one line each."""
    own, other = ({**c.to_dict(), "project_embeddings": c.has_projection} for c in (config, source))
    return [
        f"{name} is {other[name]!r} there and {value!r} here"
        for name, value in own.items()
        if name not in _FREE and other[name] != value and (name, value) != ("type_vocab_size", 0)
    ]


def _has_same_purpose(source: Mapping[str, Any], task: Mapping[str, Any], name: str) -> bool:
    """False for a variable of a head that learned something else than the network will learn."""
    if name.startswith(("embeddings/", "encoder/", "pooler/", "cls/predictions/")):
        return True
    if name.startswith("cls/seq_relationship/"):
        return source.get("sentence_objective") == task.get("sentence_objective")
    if "task" not in source:  # converted: the model's head and its labels decide
        count = source.get("num_labels", 0)
        labels = source.get("labels") or list(map(str, range(count))) or None
        is_number = count == 1 and not source.get("multi_label")
        source = {**source, "task": task.get("task"), "labels": None if is_number else labels}
    decisive = ("model", "task", "labels", "pooling", "multi_label", "num_labels")
    return all(source.get(key) == task.get(key) for key in decisive)


def block_origins(source: AlbertConfig, config: AlbertConfig) -> dict[str, list[str]]:
    """Scopes of a network's blocks, each with the scopes of the source's blocks for the same layers.

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
        for block, source_block, parts in (
            (pair.attention, origin.attention, ("attention_1", "LayerNorm")),
            (pair.feed_forward, origin.feed_forward, ("ffn_1", "LayerNorm_1")),
        ):
            for part in parts:
                origins.setdefault(f"{block.scope()}/{part}", []).append(f"{source_block.scope()}/{part}")
    return origins


def block_scope(name: str) -> str:
    """The scope of a block's variable, as in `block_origins`.

    >>> block_scope("encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/bias")
    'encoder/transformer/group_0/inner_group_0/ffn_1'
    """
    return "/".join(name.split("/")[:5])
