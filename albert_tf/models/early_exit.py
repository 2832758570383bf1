"""Early exit: a classifier after each layer.

In inference a sequence leaves the network once enough classifiers agree.

Source: Zhou et al. 2020, "BERT Loses Patience: Fast and Robust Inference with Early Exit" (PABEE).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.constants import ENCODER_INPUTS
from albert_tf.errors import InputError, check_whole
from albert_tf.models.encoder import AlbertEncoder, ModelInputs
from albert_tf.models.heads import biased_logits
from albert_tf.models.layers import Layer, attention_bias, kernel_initializer, layer_ops, sizes
from albert_tf.models.padding import TokenIndex, skip_padding
from albert_tf.models.sharing import BlockPair, sharing_plan

# Applies one layer: states [T, H], attention bias and TokenIndex to the next states [T, H].
Apply = Callable[[tf.Tensor, tf.Tensor, TokenIndex], tf.Tensor]


class ExitClassifiers(Layer):
    """Classifiers after all layers except the last: states [B, L - 1, H] to float32 logits [B, L - 1, K].

    The variables are `exits/output_weights` [L - 1, K, H] and `exits/output_bias` [L - 1, K].
    """

    def __init__(self, units: int, config: AlbertConfig, **kwargs: Any):
        super().__init__(name="exits", **kwargs)
        exits = config.num_hidden_layers - 1
        if exits < 1:
            raise InputError("early_exit: a network with num_hidden_layers=1 has no layer to leave early")
        shape = [exits, units, config.hidden_size]
        self.output_weights = self.add_weight("exits/output_weights", shape, kernel_initializer(config))
        self.output_bias = self.add_weight("exits/output_bias", [exits, units], "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Logits of each layer's states."""
        logits = tf.einsum("blh,lkh->blk", x, tf.cast(self.output_weights, x.dtype))
        return tf.cast(logits, tf.float32) + tf.cast(self.output_bias, tf.float32)


class _Batch(NamedTuple):
    """State of the loop over layers: the examples still in the network, and the answers so far."""

    layer: tf.Tensor  # int32 [], from 0
    x: tf.Tensor  # states of the tokens [T, H]
    positions: tf.Tensor  # positions of the tokens in the flattened batch, int32 [T]
    mask: tf.Tensor  # [R, S]
    examples: tf.Tensor  # number of each remaining example in the whole batch, int32 [R / rows_per_example]
    agreed: tf.Tensor  # number of layers in a row that agreed, int32 [R / rows_per_example]
    logits: tf.Tensor  # latest logits of each example of the whole batch, float32 [B, K]
    layers: tf.Tensor  # number of layers computed for each of them, int32 [B]


def call_with_early_exit(model: Any, inputs: ModelInputs, patience: tf.Tensor | int) -> dict[str, tf.Tensor]:
    """Computes logits layer by layer; an example leaves when `patience` layers in a row agree.

    A layer agrees with the one before if its likeliest label, or option, is the same, or if its number
    differs by less than the model's exit_threshold. Only examples that have not left are computed further.
    Other examples in the batch do not change an answer. There is no dropout.

    Args:
      model: a PooledModel with early_exit.
      inputs: the encoder's inputs, [R, S] each, or [B, C, S] for multiple choice.
      patience: integer [B], or one for all. L or more computes every layer; less than 1 counts as 1.
    Returns:
      `logits` float32 [B, K] and `layers` int32 [B], the number of layers computed for each example.
    """
    flat = {name: inputs[name] for name in ENCODER_INPUTS if name in inputs}
    flat = {name: tf.reshape(x, [-1, sizes(x)[-1]]) for name, x in flat.items()}
    _, mask, x, tokens = model.encoder.embed_inputs(skip_padding(flat))
    exits, last = model.exits, model.classifier
    weights = tf.concat([exits.output_weights, last.output_weights[tf.newaxis]], axis=0)  # [L, units, H]
    biases = tf.concat([exits.output_bias, last.output_bias[tf.newaxis]], axis=0)  # [L, units]
    length, count = tf.shape(mask)[1], tf.shape(mask)[0] // model.rows_per_example
    num_logits = weights.shape[1] * model.rows_per_example  # K
    patience = tf.maximum(tf.broadcast_to(tf.cast(patience, tf.int32), [count]), 1)

    def agree(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        if num_logits == 1:
            return tf.abs(a - b)[:, 0] < model.exit_threshold
        return tf.argmax(a, axis=1) == tf.argmax(b, axis=1)

    def one_layer(apply: Apply, before: _Batch) -> _Batch:
        rows = tf.shape(before.mask)[0]
        tokens = TokenIndex.from_positions(before.positions, rows * length)
        x = apply(before.x, attention_bias(before.mask, before.x.dtype), tokens)
        sequence = tf.reshape(tokens.scatter_zeros(x), [rows, length, x.shape[-1]])
        state = model.pool_states(sequence, before.mask)
        logits = biased_logits(state, weights[before.layer], biases[before.layer])
        logits = tf.reshape(model.mask_logits(logits, before.mask), [-1, num_logits])
        is_same = (before.layer > 0) & agree(tf.gather(before.logits, before.examples), logits)
        agreed = tf.where(is_same, before.agreed + 1, 0)
        stays = agreed < tf.gather(patience, before.examples)
        rows_stay = tf.repeat(stays, model.rows_per_example)
        row = before.positions // length  # [T]
        tokens_stay = tf.gather(rows_stay, row)
        new_row = tf.gather(tf.cumsum(tf.cast(rows_stay, tf.int32), exclusive=True), row)
        at, done = before.examples[:, tf.newaxis], tf.fill(tf.shape(agreed), before.layer + 1)
        return _Batch(
            before.layer + 1,
            tf.boolean_mask(x, tokens_stay),
            tf.boolean_mask(new_row * length + before.positions % length, tokens_stay),
            tf.boolean_mask(before.mask, rows_stay),
            tf.boolean_mask(before.examples, stays),
            tf.boolean_mask(agreed, stays),
            # Also for examples that stay: a later layer overwrites them.
            tf.tensor_scatter_nd_update(before.logits, at, logits),
            tf.tensor_scatter_nd_update(before.layers, at, done),
        )

    zero, logits = tf.zeros([count], tf.int32), tf.zeros([count, num_logits])
    batch = _Batch(tf.constant(0), x, tokens.positions, mask, tf.range(count), zero, logits, zero)
    any_number = tf.TensorShape([None])
    shapes = _Batch(*[any_number] * len(batch))._replace(
        layer=tf.TensorShape([]),
        x=tf.TensorShape([None, x.shape[-1]]),
        mask=tf.TensorShape([None, mask.shape[1]]),
        logits=tf.TensorShape([None, num_logits]),
    )
    end = 0
    for apply, times in _layers(model.encoder):
        end += times
        (batch,) = tf.while_loop(
            lambda batch, end=end: (batch.layer < end) & (tf.size(batch.examples) > 0),
            lambda batch, apply=apply: (one_layer(apply, batch),),
            [batch],
            shape_invariants=[shapes],
            parallel_iterations=1,
        )
    return {"logits": batch.logits, "layers": batch.layers}


def _layers(encoder: AlbertEncoder) -> Iterator[tuple[Apply, int]]:
    """Each layer as a function, and the number of times in a row that it is applied."""
    config = encoder.config
    ops = layer_ops(config.hidden_act, config.layer_norm_eps, is_fused=False)
    attention = {key: (block, block.parameters()) for key, block in encoder.attention_blocks.items()}
    feed_forward = {key: (block, block.parameters()) for key, block in encoder.feed_forward_blocks.items()}
    plan, inner = sharing_plan(config), config.inner_group_num

    def apply(pairs: list[BlockPair], x: tf.Tensor, bias: tf.Tensor, tokens: TokenIndex) -> tf.Tensor:
        for pair in pairs:
            block, parameters = attention[pair.attention.key()]
            x = block(x, parameters, bias, ops, None, tokens)
            block, parameters = feed_forward[pair.feed_forward.key()]
            x = block(x, parameters, ops)
        return x

    layers = (plan[first : first + inner] for first in range(0, len(plan), inner))
    for pairs, alike in itertools.groupby(layers):
        yield functools.partial(apply, pairs), len(list(alike))


def check_patience(patience: int, has_exits: bool, xla: bool | None = None) -> None:
    """Raises InputError if patience is not at least 1, the model has no exits, or XLA is to compile it."""
    check_whole("patience", patience, at_least=1)
    if not has_exits:
        raise InputError(f"patience={patience}: the model has no exits: fine-tune one with early_exit")
    if xla:
        raise InputError(f"patience={patience}: XLA compiles no batch that shrinks: leave xla out")
