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
from albert_tf.models.blocks import Blocks
from albert_tf.models.encoder import AlbertEncoder, ModelInputs
from albert_tf.models.heads import biased_logits
from albert_tf.models.layers import Layer, attention_bias, kernel_initializer, layer_ops, sizes
from albert_tf.models.padding import TokenIndex, skip_padding

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


class _LoopState(NamedTuple):
    """State of the loop over layers: the examples still in the network, and the answers so far."""

    layer: tf.Tensor  # number of layers computed so far, int32 []
    # Of the remaining examples, E, with R = E · rows_per_example rows:
    x: tf.Tensor  # hidden states of the tokens [T, H]
    positions: tf.Tensor  # positions of the tokens among the R · S of these rows, int32 [T]
    mask: tf.Tensor  # [R, S]
    examples: tf.Tensor  # number of each in the whole batch, int32 [E]
    agreed: tf.Tensor  # number of layers in a row that agreed, int32 [E]
    # Of all examples:
    logits: tf.Tensor  # latest logits, float32 [B, K]
    layers: tf.Tensor  # number of layers computed for each, int32 [B]


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
    count = tf.shape(mask)[0] // model.rows_per_example
    patience = tf.maximum(tf.broadcast_to(tf.cast(patience, tf.int32), [count]), 1)

    def compute_layer(apply: Apply, state: _LoopState) -> _LoopState:
        tokens = TokenIndex.from_positions(state.positions, tf.size(state.mask))
        state = state._replace(x=apply(state.x, attention_bias(state.mask, state.x.dtype), tokens))
        logits = _example_logits(model, state, tokens, weights[state.layer], biases[state.layer])
        state = _add_logits(state, logits, model.exit_threshold)
        stays = state.agreed < tf.gather(patience, state.examples)
        return _keep_examples(state, stays, model.rows_per_example)

    zero = tf.zeros([count], tf.int32)
    logits = tf.zeros([count, weights.shape[1] * model.rows_per_example])
    state = _LoopState(tf.constant(0), x, tokens.positions, mask, tf.range(count), zero, logits, zero)
    # The numbers of examples, rows and tokens change.
    shapes = _LoopState(*[tf.TensorShape([None, *part.shape[1:]]) for part in state])
    shapes = shapes._replace(layer=tf.TensorShape([]))
    end = 0
    for apply, times in _repeated_layers(model.encoder):
        end += times
        (state,) = tf.while_loop(
            lambda state, end=end: (state.layer < end) & (tf.size(state.examples) > 0),
            lambda state, apply=apply: (compute_layer(apply, state),),
            [state],
            shape_invariants=[shapes],
            parallel_iterations=1,
        )
    return {"logits": state.logits, "layers": state.layers}


def _example_logits(
    model: Any, state: _LoopState, tokens: TokenIndex, weights: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
    """Logits [E, K] of a layer's classifier, with weights [units, H] and bias [units]."""
    sequence = tf.reshape(tokens.scatter_zeros(state.x), [*sizes(state.mask), state.x.shape[-1]])  # [R, S, H]
    logits = biased_logits(model.pool_states(sequence, state.mask), weights, bias)  # [R, units]
    return tf.reshape(model.mask_logits(logits, state.mask), [-1, state.logits.shape[1]])


def _add_logits(state: _LoopState, logits: tf.Tensor, exit_threshold: float) -> _LoopState:
    """The state with the logits [E, K] of another layer. Compares them with those of the layer before."""
    before = tf.gather(state.logits, state.examples)  # [E, K]
    if logits.shape[1] == 1:
        is_same = tf.abs(before - logits)[:, 0] < exit_threshold
    else:
        is_same = tf.argmax(before, axis=1) == tf.argmax(logits, axis=1)
    layer, rows = state.layer + 1, state.examples[:, tf.newaxis]
    return state._replace(
        layer=layer,
        agreed=tf.where((state.layer > 0) & is_same, state.agreed + 1, 0),
        logits=tf.tensor_scatter_nd_update(state.logits, rows, logits),
        layers=tf.tensor_scatter_nd_update(state.layers, rows, tf.fill(tf.shape(state.examples), layer)),
    )


def _keep_examples(state: _LoopState, stays: tf.Tensor, rows_per_example: int) -> _LoopState:
    """Drops the examples for which `stays`, bool [E], is False. The rows of the others are renumbered."""
    length = tf.shape(state.mask)[1]
    row, column = state.positions // length, state.positions % length  # [T]
    row_stays = tf.repeat(stays, rows_per_example)  # [R]
    token_stays = tf.gather(row_stays, row)  # [T]
    new_row = tf.gather(tf.cumsum(tf.cast(row_stays, tf.int32), exclusive=True), row)  # [T]
    return state._replace(
        x=tf.boolean_mask(state.x, token_stays),
        positions=tf.boolean_mask(new_row * length + column, token_stays),
        mask=tf.boolean_mask(state.mask, row_stays),
        examples=tf.boolean_mask(state.examples, stays),
        agreed=tf.boolean_mask(state.agreed, stays),
    )


def _repeated_layers(encoder: AlbertEncoder) -> Iterator[tuple[Apply, int]]:
    """Each layer as a function, and the number of times in a row that it is applied."""
    config, pairs = encoder.config, encoder.block_pairs()
    ops = layer_ops(config.hidden_act, config.layer_norm_eps, is_fused=False)
    parameters = {block: block.parameters() for block in dict.fromkeys(itertools.chain(*pairs))}

    def apply(pairs: list[Blocks], x: tf.Tensor, bias: tf.Tensor, tokens: TokenIndex) -> tf.Tensor:
        for attention, feed_forward in pairs:
            x = attention(x, parameters[attention], bias, ops, None, tokens)
            x = feed_forward(x, parameters[feed_forward], ops)
        return x

    inner = config.inner_group_num
    layers = (pairs[first : first + inner] for first in range(0, len(pairs), inner))
    for layer, alike in itertools.groupby(layers):
        yield functools.partial(apply, layer), len(list(alike))


def check_patience(patience: int, has_exits: bool, xla: bool | None = None) -> None:
    """Raises InputError if patience is not at least 1, the model has no exits, or XLA is to compile it."""
    check_whole("patience", patience, at_least=1)
    if not has_exits:
        raise InputError(f"patience={patience}: the model has no exits: fine-tune one with early_exit")
    if xla:
        raise InputError(f"patience={patience}: XLA compiles no batch that shrinks: leave xla out")
