"""Early exit: a classifier after each layer, and inference that a sequence leaves once enough of them agree.

Source: Zhou et al. 2020, "BERT Loses Patience: Fast and Robust Inference with Early Exit" (PABEE).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.features import ENCODER_INPUTS
from albert_tf.models.encoder import AlbertEncoder, Inputs, block_key
from albert_tf.models.layer import Layer, attention_bias, elementwise, kernel_initializer
from albert_tf.models.padding import Tokens, skip_padding
from albert_tf.models.sharing import sharing_plan
from albert_tf.utils.checks import check_range, check_type
from albert_tf.utils.errors import InputError


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


def call_with_patience(
    encoder: AlbertEncoder,
    inputs: Inputs,
    patience: tf.Tensor | int,
    logits_of: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor],
    agree: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    num_logits: int,
    rows_each: int = 1,
) -> dict[str, tf.Tensor]:
    """The logits of examples that leave as soon as `patience` layers in a row agree with the one before.

    States are computed of the examples alone that are left, and of their tokens. An example answers the same
    whatever others are in its batch.

    Args:
      encoder: the network, without dropout.
      inputs: of the encoder, [R, S] each, or [B, C, S].
      patience: integer [B], or one for all; from L on every layer is computed, and less than 1 is as 1.
      logits_of: from the number of a layer, int32 from 0, its states [R, S, H] and the mask [R, S] to logits
        float32 [B, K].
      agree: from the logits of two layers, [B, K] each, to bool [B].
      num_logits: K.
      rows_each: C, sequences of an example, which leave together.
    Returns:
      `logits` float32 [B, K] and `layers` int32 [B], the number of layers computed of each example.
    """
    flat = {name: inputs[name] for name in ENCODER_INPUTS if name in inputs}
    flat = {name: tf.reshape(x, [-1, x.shape[-1] or tf.shape(x)[-1]]) for name, x in flat.items()}
    _, mask, x, tokens = encoder.first_states(skip_padding(flat))
    assert tokens is not None
    length, count = tf.shape(mask)[1], tf.shape(mask)[0] // rows_each
    wanted = tf.maximum(tf.broadcast_to(tf.cast(patience, tf.int32), [count]), 1)
    config = encoder.config
    functions = elementwise(config.hidden_act, config.layer_norm_eps, is_fused=False)
    attention = {key: block.parameters() for key, block in encoder.attention_blocks.items()}
    feed_forward = {key: block.parameters() for key, block in encoder.feed_forward_blocks.items()}

    def one_layer(blocks: tuple, before: _Batch) -> _Batch:
        x, rows = before.x, tf.shape(before.mask)[0]
        tokens, bias = Tokens.at(before.places, rows * length), attention_bias(before.mask, x.dtype)
        for first, second in blocks:
            x = encoder.attention_blocks[first](x, attention[first], bias, functions, None, tokens)
            x = encoder.feed_forward_blocks[second](x, feed_forward[second], functions)
        sequence = tf.reshape(tokens.padded(x), [rows, length, config.hidden_size])
        logits = logits_of(before.layer, sequence, before.mask)
        is_same = (before.layer > 0) & agree(tf.gather(before.logits, before.examples), logits)
        agreed = tf.where(is_same, before.agreed + 1, 0)
        stays = agreed < tf.gather(wanted, before.examples)
        rows_stay = tf.repeat(stays, rows_each)
        row = before.places // length  # [T]
        tokens_stay = tf.gather(rows_stay, row)
        places = tf.gather(tf.cumsum(tf.cast(rows_stay, tf.int32), exclusive=True), row) * length
        places += before.places % length
        at, done = before.examples[:, tf.newaxis], tf.fill([tf.size(before.examples)], before.layer + 1)
        return _Batch(
            before.layer + 1,
            tf.boolean_mask(x, tokens_stay),
            tf.boolean_mask(places, tokens_stay),
            tf.boolean_mask(before.mask, rows_stay),
            tf.boolean_mask(before.examples, stays),
            tf.boolean_mask(agreed, stays),
            # Of those that stay as well: a later layer overwrites them.
            tf.tensor_scatter_nd_update(before.logits, at, logits),
            tf.tensor_scatter_nd_update(before.layers, at, done),
        )

    zero, logits = tf.zeros([count], tf.int32), tf.zeros([count, num_logits])
    batch = _Batch(tf.constant(0), x, tokens.places, mask, tf.range(count), zero, logits, zero)
    any_number = [None]
    shapes = _Batch(
        *([], [None, x.shape[-1]], any_number, [None, mask.shape[1]], any_number, any_number),
        *([None, num_logits], any_number),
    )
    shapes = _Batch(*map(tf.TensorShape, shapes))
    end = 0
    for blocks, alike in itertools.groupby(_layers(config)):
        end += len(list(alike))
        batch = tf.while_loop(
            lambda batch, end=end: (batch.layer < end) & (tf.size(batch.examples) > 0),
            lambda batch, blocks=blocks: (one_layer(blocks, batch),),
            [batch],
            shape_invariants=[shapes],
            parallel_iterations=1,
        )[0]
    return {"logits": batch.logits, "layers": batch.layers}


def _layers(config: AlbertConfig) -> list[tuple[tuple[str, str], ...]]:
    """The keys of the attention and feed-forward blocks of each layer."""
    keys = [(block_key(pair.attention), block_key(pair.feed_forward)) for pair in sharing_plan(config)]
    return [tuple(layer) for layer in zip(*[iter(keys)] * config.inner_group_num, strict=True)]


def check_patience(patience: int, model: Any, xla: bool | None = None) -> None:
    """InputError for a patience that is none, of a model without exits, or of one that XLA is to compile."""
    check_type("patience", "int", patience)
    check_range("patience", patience, at_least=1)
    if not getattr(model, "early_exit", False):
        raise InputError(f"patience={patience}: the model has no exits: fine-tune one with early_exit")
    if xla:
        raise InputError(f"patience={patience}: XLA compiles no batch that shrinks: leave xla out")
