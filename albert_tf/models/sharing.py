"""A network's parameters: the blocks that layers share, names and shapes of variables, and their number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError


class BlockScope(NamedTuple):
    """Identifies a block's parameters by Google's variable scope `group_<group>/inner_group_<inner>`."""

    group: int
    inner: int

    def scope(self) -> str:
        """The variable scope, without the leading `bert/`.

        >>> BlockScope(0, 1).scope()
        'encoder/transformer/group_0/inner_group_1'
        """
        return f"encoder/transformer/group_{self.group}/inner_group_{self.inner}"

    def key(self) -> str:
        """The key of the block in an encoder's dicts: a string, since Keras tracks only such dicts."""
        return f"{self.group}_{self.inner}"


class BlockPair(NamedTuple):
    """One application of an attention block and of the feed-forward block after it."""

    attention: BlockScope
    feed_forward: BlockScope


def sharing_plan(config: AlbertConfig) -> list[BlockPair]:
    """The scopes of all L · inner_group_num pairs of blocks, in order. Equal scopes share parameters.

    Source: Lan et al. 2020, §3.1 and Table 4. A layer's group is Google's `int(layer / L * G)`.
    Note: Computed with integers. Google truncates floats, so L=44, G=22, layer 30 gives 14 there, not 15.

    >>> config = AlbertConfig(num_hidden_layers=6, num_hidden_groups=3)
    >>> [pair.attention.group for pair in sharing_plan(config)]
    [0, 0, 1, 1, 2, 2]
    """
    layers, groups = config.num_hidden_layers, config.num_hidden_groups
    layer_groups = [layer * groups // layers for layer in range(layers)]
    unshared = list(range(layers))
    attention = layer_groups if config.sharing in ("all", "attention") else unshared
    feed_forward = layer_groups if config.sharing in ("all", "ffn") else unshared
    return [
        BlockPair(BlockScope(attention[layer], inner), BlockScope(feed_forward[layer], inner))
        for layer in range(layers)
        for inner in range(config.inner_group_num)
    ]


def with_num_layers(config: AlbertConfig, num_hidden_layers: int | None) -> AlbertConfig:
    """The config with another number of applications of the shared layers. None: the same config.

    Raises:
      InputError: the other network would need other parameters.
    """
    if num_hidden_layers in (None, config.num_hidden_layers):
        return config
    if config.sharing != "all":
        raise InputError(
            f"num_hidden_layers={num_hidden_layers} has other parameters than the {config.num_hidden_layers} "
            f'layers of the config, of which sharing="{config.sharing}" gives each its own: only with '
            'sharing="all" can depth change'
        )
    return config.replace(num_hidden_layers=num_hidden_layers)


class Variable(NamedTuple):
    """A variable of a model, whose names are those of google-research/albert, without the scope "bert/"."""

    part: str  # the part of the network, such as "pooler/dense"
    attribute: str  # its name in the part, such as "kernel"; "" for the table of embeddings
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """The whole name, as TensorFlow has it."""
        return f"{self.part}/{self.attribute}" if self.attribute else self.part

    @property
    def size(self) -> int:
        """The number of its values."""
        return math.prod(self.shape)


class _Part(NamedTuple):
    """A part of the network in the tables. Shapes are letters, see `_sizes`; of layers input > output."""

    name: str
    kind: str  # of _ATTRIBUTES
    shape: str


_ATTRIBUTES = {
    "table": ("",),
    "dense": ("kernel", "bias"),
    "kernel": ("kernel",),
    "norm": ("gamma", "beta"),
    "output": ("output_weights", "output_bias"),
    "bias": ("output_bias",),
}


def _parse(table: str) -> list[_Part]:
    """The parts in the lines of a table: name, kind and shape of each."""
    return [_Part(*line.split()) for line in table.strip().splitlines()]


_EMBEDDINGS = _parse("""
embeddings/word_embeddings       table V,E
embeddings/token_type_embeddings table T,E
embeddings/position_embeddings   table S,E
embeddings/LayerNorm             norm  E
""")
_PROJECTION = _parse("encoder/embedding_hidden_mapping_in dense E>H")
_POOLER = _parse("pooler/dense dense H>H")

# Parts of a block, inside the scope of its group.
_ATTENTION = _parse("""
attention_1/self/query   dense H>H
attention_1/self/key     dense H>H
attention_1/self/value   dense H>H
attention_1/output/dense dense H>H
LayerNorm                norm  H
""")
_FEED_FORWARD = _parse("""
ffn_1/intermediate/dense        dense H>I
ffn_1/intermediate/output/dense dense I>H
LayerNorm_1                     norm  H
""")


HEADS = {
    "mlm": _parse("""
cls/predictions/transform/dense     dense H>E
cls/predictions/transform/LayerNorm norm  E
cls/predictions                     bias  V
"""),
    "sentence": _parse("cls/seq_relationship output H>2"),
    "classifier": _parse("classifier output H>K"),
    "exits": _parse("exits output H>X,K"),  # all layers except the last
    "token_classifier": _parse("classifier output H>K"),
    "span": _parse("cls/squad output H>2"),
    # run_squad_v2's.
    "answerable_span": _parse("""
start_logits/dense   dense  H>1
end_logits/dense_0   dense  2H>H
end_logits/LayerNorm norm   H
end_logits/dense_1   dense  H>1
answer_class/dense_0 dense  2H>H
answer_class/dense_1 kernel H>1
"""),
}


def encoder_variables(config: AlbertConfig) -> list[Variable]:
    """All variables of an encoder without heads.

    >>> variables = encoder_variables(AlbertConfig())
    >>> variables[-2].name, variables[-2].shape
    ('pooler/dense/kernel', (768, 768))
    """
    plan = sharing_plan(config)
    parts = [part for part in _EMBEDDINGS if config.type_vocab_size or "T" not in part.shape]
    parts += _PROJECTION if config.has_projection else []
    for scope in dict.fromkeys(pair.attention for pair in plan):
        parts += _with_scope(scope, _ATTENTION)
    for scope in dict.fromkeys(pair.feed_forward for pair in plan):
        parts += _with_scope(scope, _FEED_FORWARD)
    parts += _POOLER if config.pooler != "none" else []
    return part_variables(parts, config)


def _with_scope(scope: BlockScope, parts: Iterable[_Part]) -> list[_Part]:
    return [part._replace(name=f"{scope.scope()}/{part.name}") for part in parts]


def part_variables(parts: Iterable[_Part], config: AlbertConfig, num_labels: int = 1) -> list[Variable]:
    """The variables of parts of a network.

    Args:
      parts: the parts, such as those of one of HEADS.
      config: architecture of the network.
      num_labels: number of logits of a head, K.
    """
    sizes = _sizes(config, num_labels)
    return [
        Variable(part.name, attribute, _shape(attribute, part.shape, sizes))
        for part in parts
        for attribute in _ATTRIBUTES[part.kind]
    ]


def _sizes(config: AlbertConfig, num_labels: int) -> dict[str, int]:
    """Sizes by the letters of the shapes."""
    return {
        "V": config.vocab_size,
        "E": config.embedding_size,
        "S": config.position_offset + config.max_position_embeddings,
        "T": config.type_vocab_size,
        "H": config.hidden_size,
        "I": config.intermediate_size,
        "K": num_labels,
        "X": config.num_hidden_layers - 1,
        "1": 1,
        "2": 2,
        "2H": 2 * config.hidden_size,
    }


def _shape(attribute: str, letters: str, sizes: dict[str, int]) -> tuple[int, ...]:
    """The shape of a variable, given the letters of its part."""
    before, after = (
        tuple(sizes[letter] for letter in axes.split(",") if letter) for axes in letters.rpartition(">")[::2]
    )
    return {"kernel": before + after, "output_weights": after + before}.get(attribute, after)


def parameter_count(config: AlbertConfig) -> dict[str, int]:
    """Counts the parameters of an encoder without heads.

    Args:
      config: architecture of the network.
    Returns:
      The numbers of parameters of `embeddings`, `encoder` (with the projection from E to H) and `pooler`, and
      their sum, `total`.
    Source: Lan et al. 2020, Tables 1 and 4.

    Example:
      >>> import albert_tf
      >>> albert_tf.parameter_count(albert_tf.PRESETS["albert_base_v2"])["total"]
      11683584
    """
    counts = {"embeddings": 0, "encoder": 0, "pooler": 0}
    for variable in encoder_variables(config):
        counts[variable.part.partition("/")[0]] += variable.size
    return {**counts, "total": sum(counts.values())}


def block_parameters(config: AlbertConfig) -> list[int]:
    """Numbers of parameters of an attention block and of a feed-forward block."""
    blocks = _ATTENTION, _FEED_FORWARD
    return [sum(variable.size for variable in part_variables(block, config)) for block in blocks]


def head_parameters(config: AlbertConfig) -> int:
    """Number of parameters of the heads of pre-training: masked tokens and, with a pooler, the sentence head.

    >>> head_parameters(AlbertConfig())
    130226
    """
    heads = ("mlm",) if config.pooler == "none" else ("mlm", "sentence")
    return sum(variable.size for head in heads for variable in part_variables(HEADS[head], config))
