"""Early exit: a classifier after each layer, and inference that a sequence leaves once enough of them agree.

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
from albert_tf.errors import InputError, check_range, check_type
from albert_tf.models.encoder import AlbertEncoder, ModelInputs
from albert_tf.models.heads import biased_logits
from albert_tf.models.layers import Layer, attention_bias, kernel_initializer, layer_ops
from albert_tf.models.padding import TokenIndex, skip_padding
from albert_tf.models.sharing import BlockPair, sharing_plan

# From the states of tokens before a layer, the attention's bias and the tokens to the states after it.
Apply = Callable[[tf.Tensor, tf.Tensor, TokenIndex], tf.Tensor]


class ExitClassifiers(Layer):
    """The classifiers after all layers but the last: states [B, L - 1, H] to float32 logits [B, L - 1, K].

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
    """The examples that are left before a layer, and the answers of all so far."""

    layer: tf.Tensor  # int32 [], from 0
    x: tf.Tensor  # states of the tokens [T, H]
    places: tf.Tensor  # where these stand among all positions, int32 [T]
    mask: tf.Tensor  # [R, S]
    examples: tf.Tensor  # numbers in the whole batch, int32 [R / C]
    agreed: tf.Tensor  # layers in a row that agreed with the one before, int32 [R / C]
    logits: tf.Tensor  # of the last layer of each example of the whole batch, float32 [B, K]
    layers: tf.Tensor  # number of layers that each of them took, int32 [B]


def call_with_early_exit(model: Any, inputs: ModelInputs, patience: tf.Tensor | int) -> dict[str, tf.Tensor]:
    """The logits of examples that leave as soon as `patience` layers in a row agree with the one before.

    Labels, or options, agree where the likeliest is the same; numbers that differ by less than the model's
    exit_threshold. States are computed of the examples alone that are left, and of their tokens. An example
    answers the same whatever others are in its batch.

    Args:
      model: a PooledModel with early_exit; it has no dropout here.
      inputs: of the encoder, [R, S] each, or [B, C, S] of options.
      patience: integer [B], or one for all; from L on every layer is computed, and less than 1 is as 1.
    Returns:
      `logits` float32 [B, K] and `layers` int32 [B], the number of layers computed of each example.
    """
    flat = {name: inputs[name] for name in ENCODER_INPUTS if name in inputs}
    flat = {name: tf.reshape(x, [-1, x.shape[-1] or tf.shape(x)[-1]]) for name, x in flat.items()}
    _, mask, x, tokens = model.encoder.first_states(skip_padding(flat))
    own, last = model.exits, model.classifier
    weights = tf.concat([own.output_weights, last.output_weights[tf.newaxis]], axis=0)  # [L, units, H]
    biases = tf.concat([own.output_bias, last.output_bias[tf.newaxis]], axis=0)  # [L, units]
    length, count = tf.shape(mask)[1], tf.shape(mask)[0] // model.rows_each
    num_logits = weights.shape[1] * model.rows_each  # K
    wanted = tf.maximum(tf.broadcast_to(tf.cast(patience, tf.int32), [count]), 1)

    def agree(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        if num_logits == 1:
            return tf.abs(a - b)[:, 0] < model.exit_threshold
        return tf.argmax(a, axis=1) == tf.argmax(b, axis=1)

    def one_layer(apply: Apply, before: _Batch) -> _Batch:
        rows = tf.shape(before.mask)[0]
        tokens = TokenIndex.at(before.places, rows * length)
        x = apply(before.x, attention_bias(before.mask, before.x.dtype), tokens)
        sequence = tf.reshape(tokens.padded(x), [rows, length, x.shape[-1]])
        state = model.state(sequence, before.mask)
        logits = biased_logits(state, weights[before.layer], biases[before.layer])
        logits = tf.reshape(model.mask_logits(logits, before.mask), [-1, num_logits])
        is_same = (before.layer > 0) & agree(tf.gather(before.logits, before.examples), logits)
        agreed = tf.where(is_same, before.agreed + 1, 0)
        stays = agreed < tf.gather(wanted, before.examples)
        rows_stay = tf.repeat(stays, model.rows_each)
        row = before.places // length  # [T]
        tokens_stay = tf.gather(rows_stay, row)
        new_row = tf.gather(tf.cumsum(tf.cast(rows_stay, tf.int32), exclusive=True), row)
        at, done = before.examples[:, tf.newaxis], tf.fill(tf.shape(agreed), before.layer + 1)
        return _Batch(
            before.layer + 1,
            tf.boolean_mask(x, tokens_stay),
            tf.boolean_mask(new_row * length + before.places % length, tokens_stay),
            tf.boolean_mask(before.mask, rows_stay),
            tf.boolean_mask(before.examples, stays),
            tf.boolean_mask(agreed, stays),
            # Of those that stay as well: a later layer overwrites them.
            tf.tensor_scatter_nd_update(before.logits, at, logits),
            tf.tensor_scatter_nd_update(before.layers, at, done),
        )

    zero, logits = tf.zeros([count], tf.int32), tf.zeros([count, num_logits])
    batch = _Batch(tf.constant(0), x, tokens.places, mask, tf.range(count), zero, logits, zero)
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
    """Each layer as a function, and how often in a row it is applied."""
    config = encoder.config
    functions = layer_ops(config.hidden_act, config.layer_norm_eps, is_fused=False)
    attention = {key: (block, block.parameters()) for key, block in encoder.attention_blocks.items()}
    feed_forward = {key: (block, block.parameters()) for key, block in encoder.feed_forward_blocks.items()}
    plan, inner = sharing_plan(config), config.inner_group_num

    def apply(pairs: list[BlockPair], x: tf.Tensor, bias: tf.Tensor, tokens: TokenIndex) -> tf.Tensor:
        for pair in pairs:
            block, parameters = attention[pair.attention.key()]
            x = block(x, parameters, bias, functions, None, tokens)
            block, parameters = feed_forward[pair.feed_forward.key()]
            x = block(x, parameters, functions)
        return x

    layers = (plan[first : first + inner] for first in range(0, len(plan), inner))
    for pairs, alike in itertools.groupby(layers):
        yield functools.partial(apply, pairs), len(list(alike))


def check_patience(patience: int, has_exits: bool, xla: bool | None = None) -> None:
    """InputError for a patience that is none, of a model without exits, or of one that XLA is to compile."""
    check_type("patience", "int", patience)
    check_range("patience", patience, at_least=1)
    if not has_exits:
        raise InputError(f"patience={patience}: the model has no exits: fine-tune one with early_exit")
    if xla:
        raise InputError(f"patience={patience}: XLA compiles no batch that shrinks: leave xla out")
