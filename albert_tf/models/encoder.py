"""AlbertEncoder: token ids to hidden states, through groups of layers that share their parameters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.constants import ENCODER_INPUTS, INPUT_MASK, TOKEN_PLACES, TYPE_IDS, WORD_IDS
from albert_tf.errors import InputError
from albert_tf.models.blocks import AttentionBlock, FeedForwardBlock
from albert_tf.models.embeddings import Embeddings
from albert_tf.models.layers import ACTIVATIONS, DenseLayer, Seed, attention_bias, draw_seed, layer_ops
from albert_tf.models.memory import check_memory, recompute
from albert_tf.models.padding import TokenIndex
from albert_tf.models.sharing import BlockPair, sharing_plan, with_num_layers

ModelInputs = Mapping[str, tf.Tensor]
Outputs = dict[str, Any]  # by name: tensors, and lists of them
M = TypeVar("M", bound="NetworkModel")


_FEW_LAYERS = 3  # of the same blocks: more of them are quicker to trace as calls of one function


class NetworkModel(keras.Model):
    """Base class of the models: a Keras model of a config, whose variables exist after construction.

    Args:
      config: the network's shape.
      remat: gradient checkpointing: training computes each layer again in the backward pass and keeps the
        activations of one layer, not of all, for the time of a second forward pass. The gradients are the
        same, but have no derivatives of their own.
      fused: training compiles each activation, softmax and LayerNorm of the layers with XLA, each of which
        then keeps one tensor alone; quicker on CPUs. For sequences of few lengths: it compiles once for each.
      **kwargs: of keras.Model, such as `name` and `dtype`.
    """

    # The constructor's arguments besides the config; each is an attribute, too.
    arguments: tuple[str, ...] = ()
    # The names of inputs that are given as a list, in its order.
    inputs_in_order: tuple[str, ...] = ENCODER_INPUTS

    def __init__(self, config: AlbertConfig, remat: bool = False, fused: bool = False, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.remat = remat
        self.fused = fused
        self.built = True  # counting, summary and loading need no first call

    def name_inputs(self, inputs: Any) -> ModelInputs:
        """Inputs by name: a dict as it is, a list or tuple in the order of `inputs_in_order`."""
        if not isinstance(inputs, list | tuple):
            return inputs
        names = self.inputs_in_order
        if len(inputs) > len(names):
            raise InputError(f"inputs are a list of {len(inputs)}: there are {', '.join(names)}")
        return dict(zip(names, inputs, strict=False))

    def get_config(self) -> dict[str, Any]:
        """The arguments of `from_config` for the same, untrained model."""
        arguments = {name: getattr(self, name) for name in ("remat", "fused", *self.arguments)}
        return {**keras.layers.Layer.get_config(self), "config": self.config.to_dict(), **arguments}

    @classmethod
    def from_config(cls: type[M], config: dict[str, Any], custom_objects: Any = None) -> M:
        """An untrained model of the same shape."""
        return cls(**{**config, "config": AlbertConfig.from_dict(config["config"])})


@keras.saving.register_keras_serializable("albert_tf")
class AlbertEncoder(NetworkModel):
    """The network without heads: token ids to hidden states.

    Its weights are float32 and exist after construction. Their names are Google's, without the leading
    `bert/`. The encoder computes in the compute type of its Keras dtype policy; LayerNorm and softmax stay in
    float32.

    Args:
      config: architecture of the network.
      remat: True for gradient checkpointing: training keeps the activations of one layer at a time and
        computes the others again in the backward pass. It saves memory and takes the time of a second forward
        pass. The gradients are the same; second derivatives are not available.
      fused: True to compile each activation, softmax and LayerNorm with XLA in training. It saves memory and
        is faster on CPUs. Each new sequence length is compiled once, so use few lengths.
      **kwargs: arguments of `keras.Model`, such as `name` and `dtype` ("mixed_bfloat16").
    Raises:
      InputError: the parameters exceed this machine's memory.

    Example:
      >>> import albert_tf
      >>> import tensorflow as tf
      >>> config = albert_tf.AlbertConfig(hidden_size=24, num_hidden_layers=2, vocab_size=9)
      >>> encoder = albert_tf.AlbertEncoder(config)
      >>> outputs = encoder({"input_word_ids": tf.constant([[2, 7, 3]])})
      >>> outputs["sequence_output"].shape, outputs["pooled_output"].shape
      (TensorShape([1, 3, 24]), TensorShape([1, 24]))
    """

    def __init__(self, config: AlbertConfig, remat: bool = False, fused: bool = False, **kwargs: Any):
        check_memory(config)
        super().__init__(config, remat, fused, **kwargs)
        width, embedding = config.hidden_size, config.embedding_size
        self.embeddings = Embeddings(config, name="embeddings", dtype=self.dtype_policy)
        self.projection = None
        if config.has_projection:
            self.projection = DenseLayer("encoder/embedding_hidden_mapping_in", embedding, width, config)
        attention, ffn = map(dict.fromkeys, zip(*sharing_plan(config), strict=True))
        self.attention_blocks = {path.key(): AttentionBlock(path.scope(), config) for path in attention}
        self.feed_forward_blocks = {path.key(): FeedForwardBlock(path.scope(), config) for path in ffn}
        self.pooler = None if config.pooler == "none" else DenseLayer("pooler/dense", width, width, config)

    def call(
        self,
        inputs: ModelInputs,
        training: bool | None = None,
        seed: Seed = None,
        num_hidden_layers: int | None = None,
        return_attentions: bool = False,
        pooled_only: bool = False,
    ) -> Outputs:
        """Computes the hidden states of all tokens. Call the encoder itself: `encoder(inputs)`.

        Args:
          inputs: a dict of integer tensors [B, S]. `input_word_ids` is needed. `input_mask` has 1 for tokens
            and 0 for padding (default: ones). `input_type_ids` has 0 for the first segment and 1 for the
            second (default: zeros). `token_places`, int32 [T], may list the positions of tokens among all B ·
            S positions: then hidden states are computed only there and are zeros elsewhere. Other keys are
            ignored. A list of tensors is taken in the order `input_word_ids, input_mask, input_type_ids`.
          training: True to apply dropout.
          seed: int32 [2], the seed of dropout. None draws one for each call.
          num_hidden_layers: times to apply the shared layers. None: as the config says. Needs
            `sharing="all"`.
          return_attentions: True to return `attentions` as well. They are computed a second time.
          pooled_only: True to return only `pooled_output`, which is then the first token's state if the
            network has no pooler. The last layer computes only that token.
        Returns:
          A dict. `sequence_output` [B, S, H]: the last hidden states. `pooled_output` [B, H], if the network
          has a pooler. `encoder_outputs`: a list of L · inner_group_num tensors [B, S, H]; the last one is
          `sequence_output`. `embedding_output` [B, S, E]: the embeddings before the projection to H.
          `attentions`, if requested: a list of L · inner_group_num tensors [B, N, S, S], the weight of every
          token for each token before dropout; they sum to 1.
        Raises:
          InputError: an input is missing, shapes disagree, S exceeds `max_position_embeddings`, or
            `num_hidden_layers` would need other parameters.
          tf.errors.InvalidArgumentError: the same where shapes are known only when the graph runs; or an id
            is outside the vocabulary. Accelerators and XLA raise no error for such an id: its embedding is
            zeros, or under XLA that of the nearest id.
        """
        inputs = self.name_inputs(inputs)
        plan = sharing_plan(with_num_layers(self.config, num_hidden_layers))
        seeds = self._dropout_seeds(seed, len(plan)) if training else None
        embedding_output, mask, x, tokens = self.first_states(inputs, seeds and seeds[0])
        known, found = mask.shape, tf.shape(mask)
        shape = [known[0] or found[0], known[1] or found[1], self.config.hidden_size]
        bias = attention_bias(mask, x.dtype)  # [B, 1, 1, S]
        states = self._hidden_states(plan, x, bias, tokens, seeds and seeds[1:], bool(training), pooled_only)
        if pooled_only:
            return {"pooled_output": states[-1] if self.pooler is None else self.pooled(states[-1])}
        before = [x, *states]
        if tokens is not None:
            states = [tokens.padded(x) for x in states]  # [B·S, H] each
        encoder_outputs = [tf.reshape(x, shape) for x in states]  # [B, S, H] each
        outputs = {
            "sequence_output": encoder_outputs[-1],
            "encoder_outputs": encoder_outputs,
            "embedding_output": embedding_output,
        }
        if self.pooler is not None:
            outputs["pooled_output"] = self.pooled(encoder_outputs[-1][:, 0])
        if return_attentions:
            blocks = [self.attention_blocks[pair.attention.key()] for pair in plan]
            attentions = zip(blocks, before, strict=False)
            outputs["attentions"] = [block.probabilities(x, bias, tokens) for block, x in attentions]
        return outputs

    def pooled(self, state: tf.Tensor) -> tf.Tensor:
        """The pooler's output [B, H] of the first tokens' last states [B, H]."""
        assert self.pooler is not None
        return ACTIVATIONS[self.config.pooler](self.pooler(state))

    def first_states(
        self, inputs: ModelInputs, seed: Seed = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, TokenIndex | None]:
        """The states that the first layer reads, of inputs as `call` takes them.

        Returns:
          The embeddings [B, S, E], the mask [B, S], the states [B·S, H], and None; of inputs with
          `token_places` the states [T, H] of these tokens, and the tokens.
        """
        word_ids, mask, type_ids = encoder_inputs(inputs, self.config.max_position_embeddings)
        embedding_output = self.embeddings(word_ids, mask, type_ids, seed)  # [B, S, E]
        x = tf.reshape(embedding_output, [-1, self.config.embedding_size])  # [B·S, E]
        tokens = TokenIndex.at(inputs[TOKEN_PLACES], tf.shape(x)[0]) if TOKEN_PLACES in inputs else None
        if tokens is not None:
            x = tokens.pick(x)  # [T, E], and T for B·S from here on
        if self.projection is not None:
            x = self.projection(x)  # [B·S, H]
        return embedding_output, mask, x, tokens

    def _hidden_states(
        self,
        plan: list[BlockPair],
        x: tf.Tensor,
        bias: tf.Tensor,
        tokens: TokenIndex | None,
        seeds: list[tf.Tensor] | None,
        training: bool,
        pooled_only: bool,
    ) -> list[tf.Tensor]:
        """The hidden states [B·S, H] behind each pair of the plan, from those before the first.

        With `pooled_only` those behind the last one are of the first tokens, [B, H].
        """
        act, epsilon = self.config.hidden_act, self.config.layer_norm_eps
        ops = layer_ops(act, epsilon, is_fused=self.fused and training)
        attention = {key: block.parameters() for key, block in self.attention_blocks.items()}
        feed_forward = {key: block.parameters() for key, block in self.feed_forward_blocks.items()}

        def layer(
            keys: list[str], first_only: bool, x: tf.Tensor, seeds: tuple, parameters: tuple
        ) -> tf.Tensor:
            x = self.attention_blocks[keys[0]](x, parameters[0], bias, ops, seeds[:2], tokens, first_only)
            return self.feed_forward_blocks[keys[1]](x, parameters[1], ops, seeds[2] if seeds else None)

        @functools.cache
        def layer_of(attention: str, feed_forward: str, first_only: bool) -> Callable[..., tf.Tensor]:
            """The layer of two blocks, which a graph for inference has once, as a function, if it recurs."""
            apply = functools.partial(layer, [attention, feed_forward], first_only)
            recurs = len(plan) > _FEW_LAYERS * len(set(plan))
            if training or not recurs or tf.executing_eagerly():
                return apply
            return tf.function(apply, autograph=False)

        states = []
        for index, pair in enumerate(plan):
            keys = [path.key() for path in pair]
            apply = layer_of(*keys, pooled_only and index == len(plan) - 1)
            drops = tuple(seeds[3 * index : 3 * index + 3]) if seeds else ()
            parameters = attention[keys[0]], feed_forward[keys[1]]
            if self.remat and training:
                x, (attention[keys[0]], feed_forward[keys[1]]) = recompute(apply, x, drops, parameters)
            else:
                x = apply(x, drops, parameters)
            states.append(x)
        return states

    def _dropout_seeds(self, seed: Seed, pairs: int) -> list[tf.Tensor] | None:
        """One seed for the embeddings and three for each pair of the plan; None where no dropout is."""
        if self.config.hidden_dropout_prob == self.config.attention_probs_dropout_prob == 0:
            return None
        return tf.unstack(tf.random.split(draw_seed(seed), 1 + 3 * pairs, alg="philox"))


def with_pooled_output(outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """An encoder's outputs; of a network without a pooler the first token's last state is `pooled_output`."""
    if "pooled_output" in outputs:
        return outputs
    return {**outputs, "pooled_output": outputs["sequence_output"][:, 0]}  # [B, H]


def encoder_inputs(inputs: ModelInputs, max_length: int) -> list[tf.Tensor]:
    """Word ids, mask and type ids, each [B, S] and of the type of the word ids, once they agree.

    Args:
      inputs: of `AlbertEncoder.call`.
      max_length: longest sequence allowed, in tokens.
    Raises: as `AlbertEncoder.call`.
    """
    if not isinstance(inputs, Mapping) or WORD_IDS not in inputs:
        given = ", ".join(sorted(inputs)) if isinstance(inputs, Mapping) else type(inputs).__name__
        names = ", ".join(ENCODER_INPUTS)
        raise InputError(f"{WORD_IDS} is missing: inputs must be a dict of {names}, not {given}")
    word_ids = tf.convert_to_tensor(inputs[WORD_IDS])
    tensors = {WORD_IDS: word_ids}
    for name, values_like in ((INPUT_MASK, tf.ones_like), (TYPE_IDS, tf.zeros_like)):
        tensors[name] = tf.convert_to_tensor(inputs[name]) if name in inputs else values_like(word_ids)
    for name, tensor in tensors.items():
        if name != INPUT_MASK and not tensor.dtype.is_integer:
            raise InputError(f"{name} has type {tensor.dtype.name}: token ids are integers")
        if tensor.shape.rank not in (None, 2) or not tensor.shape.is_compatible_with(word_ids.shape):
            wanted = "[batch, sequence], all of one shape"
            raise InputError(f"{name} has shape {tensor.shape}: inputs must be {wanted}")
    length = word_ids.shape[1] if word_ids.shape.rank else None
    if length is not None and length > max_length:
        raise InputError(f"the sequence length {length} is more than max_position_embeddings={max_length}")
    # Stacked, since that alone raises where shapes known only when it runs disagree: a sum would broadcast,
    # and a reshape accept a transposed mask.
    return tf.unstack(tf.stack([tf.cast(x, word_ids.dtype) for x in tensors.values()]), num=3)
