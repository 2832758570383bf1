"""AlbertEncoder: computes hidden states of token ids, with groups of layers that share parameters."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any, TypeVar

import tensorflow as tf
import tf_keras as keras

from albert_tf.config import AlbertConfig
from albert_tf.constants import ENCODER_INPUTS, INPUT_MASK, TOKEN_POSITIONS, TYPE_IDS, WORD_IDS
from albert_tf.errors import InputError
from albert_tf.models.blocks import AttentionBlock, Blocks, FeedForwardBlock
from albert_tf.models.embeddings import Embeddings
from albert_tf.models.layers import ACTIVATIONS, DenseLayer, Seed, attention_bias, draw_seed, layer_ops, sizes
from albert_tf.models.memory import LayerFunction, check_memory, recompute
from albert_tf.models.padding import TokenIndex
from albert_tf.models.sharing import sharing_plan, with_num_layers

ModelInputs = Mapping[str, tf.Tensor]
Outputs = dict[str, Any]  # tensors and lists of tensors by name
M = TypeVar("M", bound="NetworkModel")


# More layers than this with the same blocks are faster to trace as calls of one function.
_FEW_LAYERS = 3


class NetworkModel(keras.Model):
    """Base class of the models: a Keras model with a config. Its variables exist after construction.

    Args:
      config: architecture of the network.
      remat: True for gradient checkpointing (see `AlbertEncoder`).
      fused: True to compile elementwise functions with XLA in training (see `AlbertEncoder`).
      **kwargs: arguments of `keras.Model`, such as `name` and `dtype`.
    """

    # Further arguments of the constructor. The model has an attribute of the name of each.
    arguments: tuple[str, ...] = ()
    # Names of the inputs, in the order of a list of inputs.
    inputs_in_order: tuple[str, ...] = ENCODER_INPUTS
    early_exit = False  # True if there is a head after each layer
    _asks_for_shapes = False  # True while Keras does, with inputs of float placeholders

    def __init__(self, config: AlbertConfig, remat: bool = False, fused: bool = False, **kwargs: Any):
        super().__init__(autocast=False, **kwargs)
        self.config = config
        self.remat = remat
        self.fused = fused
        self.built = True  # count_params, summary and load_weights then work before the first call

    def name_inputs(self, inputs: Any) -> ModelInputs:
        """The inputs by name: a dict unchanged, a list or tuple in the order of `inputs_in_order`.

        Keras stores a list of one tensor as this tensor, which is the first input.
        """
        if self._asks_for_shapes:
            inputs = tf.nest.map_structure(lambda x: tf.cast(x, tf.int32), inputs)
        if isinstance(inputs, Mapping):
            return inputs
        inputs, names = inputs if isinstance(inputs, list | tuple) else [inputs], self.inputs_in_order
        if len(inputs) > len(names):
            raise InputError(f"inputs are a list of {len(inputs)}: there are {', '.join(names)}")
        return dict(zip(names, inputs, strict=False))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Keras' shapes of the outputs for shapes of the inputs."""
        self._asks_for_shapes = True
        try:
            return super().compute_output_shape(input_shape)
        finally:
            self._asks_for_shapes = False

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None
    ) -> tf.Tensor:
        """Keras' loss of the outputs that have targets."""
        self._check_weights(sample_weight, y, y_pred)
        return super().compute_loss(x, y, self._outputs_with_targets(y_pred, y), sample_weight)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> dict[str, Any]:
        """Keras' metrics of the outputs that have targets."""
        self._check_weights(sample_weight, y, y_pred)
        return super().compute_metrics(x, y, self._outputs_with_targets(y_pred, y), sample_weight)

    @staticmethod
    def _check_weights(sample_weight: Any, targets: Any, outputs: Any) -> None:
        """Raises InputError for weights by names without targets, which Keras would leave or pair wrongly."""
        named = targets if isinstance(targets, Mapping) else outputs
        are_named = isinstance(sample_weight, Mapping) and isinstance(named, Mapping)
        if are_named and (unknown := sample_weight.keys() - named.keys()):
            raise InputError(f"sample_weight {sorted(unknown)}: the targets are {', '.join(sorted(named))}")

    def _outputs_with_targets(self, outputs: Any, targets: Any) -> Any:
        """The outputs that a dict of targets names; the only output for other targets.

        Keras pairs outputs and losses by their places in flat lists. A list among the outputs, such as
        `encoder_outputs`, would shift the outputs after it, and so would losses of outputs without targets.
        """
        if not isinstance(outputs, Mapping) or targets is None:
            return outputs
        if not isinstance(targets, Mapping):
            if len(outputs) > 1:
                names = ", ".join(sorted(outputs))
                raise InputError(f"targets have no names, and the outputs are {names}: give a dict by name")
            return outputs
        if unknown := targets.keys() - outputs.keys():
            raise InputError(
                f"targets {sorted(unknown)}: the model has the outputs {', '.join(sorted(outputs))}"
            )
        losses, metrics = self.compiled_loss, self.compiled_metrics
        named = [losses._user_losses, losses._user_loss_weights]
        if metrics is not None:
            named += [metrics._user_metrics, metrics._user_weighted_metrics]
        compiled = {name for part in named if isinstance(part, Mapping) for name in part}
        first = losses.__dict__.setdefault("_first_targets", {*targets})  # new with each `compile`
        if others := (compiled | first) ^ targets.keys():
            problem = f"targets {sorted(targets)}: `compile` or the first call named {sorted(others)}, or not"
            raise InputError(f"{problem}: give the same in each call, or compile the model again")
        return {name: outputs[name] for name in targets}

    def get_config(self) -> dict[str, Any]:
        """The argument of `from_config` for an untrained model of the same architecture."""
        arguments = {name: getattr(self, name) for name in ("remat", "fused", *self.arguments)}
        if self.trainable and (frozen := [variable.name for variable in self.non_trainable_weights]):
            arguments["frozen_weights"] = frozen
        return {**keras.layers.Layer.get_config(self), "config": self.config.to_dict(), **arguments}

    @classmethod
    def from_config(cls: type[M], config: dict[str, Any], custom_objects: Any = None) -> M:
        """Builds an untrained model from the result of `get_config`."""
        config = {**config, "config": AlbertConfig.from_dict(config["config"])}
        frozen = set(config.pop("frozen_weights", ()))
        model = cls(**config)
        for layer in (part for part in model.submodules if isinstance(part, keras.layers.Layer)):
            if layer.weights and frozen.issuperset(variable.name for variable in layer.weights):
                layer.trainable = False
        return model


@keras.saving.register_keras_serializable("albert_tf")
class AlbertEncoder(NetworkModel):
    """The network without heads: it computes hidden states of token ids.

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
        self.attention_blocks = {block.key(): AttentionBlock(block.scope(), config) for block in attention}
        self.feed_forward_blocks = {block.key(): FeedForwardBlock(block.scope(), config) for block in ffn}
        self.pooler = None if config.pooler == "none" else DenseLayer("pooler/dense", width, width, config)

    @property
    def encoder(self) -> AlbertEncoder:
        """The encoder itself, as models with a head have one."""
        return self

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
            ignored. A list of tensors is taken in the order `input_word_ids, input_mask, input_type_ids`, and
            a tensor as `input_word_ids`.
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
            zeros, or with XLA the embedding of the nearest id.
        """
        inputs = self.name_inputs(inputs)
        pairs = self.block_pairs(num_hidden_layers)
        seeds = self._dropout_seeds(seed, len(pairs)) if training else None
        embedding_output, mask, x, tokens = self.embed_inputs(inputs, seeds and seeds[0])
        shape = [*sizes(mask), self.config.hidden_size]
        bias = attention_bias(mask, x.dtype)  # [B, 1, 1, S]
        states = self._hidden_states(pairs, x, bias, tokens, seeds and seeds[1:], bool(training), pooled_only)
        if pooled_only:
            return {"pooled_output": states[-1] if self.pooler is None else self.pool(states[-1])}
        layer_inputs = [x, *states]
        if tokens is not None:
            states = [tokens.scatter_zeros(x) for x in states]  # [B·S, H] each
        encoder_outputs = [tf.reshape(x, shape) for x in states]  # [B, S, H] each
        outputs = {
            "sequence_output": encoder_outputs[-1],
            "encoder_outputs": encoder_outputs,
            "embedding_output": embedding_output,
        }
        if self.pooler is not None:
            outputs["pooled_output"] = self.pool(encoder_outputs[-1][:, 0])
        if return_attentions:
            attentions = zip(pairs, layer_inputs, strict=False)
            outputs["attentions"] = [block.probabilities(x, bias, tokens) for (block, _), x in attentions]
        return outputs

    def block_pairs(self, num_hidden_layers: int | None = None) -> list[Blocks]:
        """The two blocks of each of the L · inner_group_num pairs, in order. See `call` for the argument."""
        plan = sharing_plan(with_num_layers(self.config, num_hidden_layers))
        return [(self.attention_blocks[a.key()], self.feed_forward_blocks[f.key()]) for a, f in plan]

    def pool(self, state: tf.Tensor) -> tf.Tensor:
        """Applies the pooler to the last hidden states of first tokens, [B, H] to [B, H]."""
        assert self.pooler is not None
        return ACTIVATIONS[self.config.pooler](self.pooler(state))

    def embed_inputs(
        self, inputs: ModelInputs, seed: Seed = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, TokenIndex | None]:
        """Computes the hidden states that the first layer reads. See `call` for the arguments.

        Returns:
          The embeddings [B, S, E], the mask [B, S], the hidden states [B·S, H], and None. If the inputs have
          `token_places`: the hidden states of these tokens [T, H], and their TokenIndex in place of None.
        """
        word_ids, mask, type_ids = encoder_inputs(inputs, self.config.max_position_embeddings)
        embedding_output = self.embeddings(word_ids, mask, type_ids, seed)  # [B, S, E]
        x = tf.reshape(embedding_output, [-1, self.config.embedding_size])  # [B·S, E]
        tokens = None
        if TOKEN_POSITIONS in inputs:
            tokens = TokenIndex.from_positions(inputs[TOKEN_POSITIONS], tf.shape(x)[0])
            x = tokens.gather(x)  # [T, E], and T for B·S from here on
        if self.projection is not None:
            x = self.projection(x)  # [B·S, H]
        return embedding_output, mask, x, tokens

    def _hidden_states(
        self,
        pairs: list[Blocks],
        x: tf.Tensor,
        bias: tf.Tensor,
        tokens: TokenIndex | None,
        seeds: list[tf.Tensor] | None,
        training: bool,
        pooled_only: bool,
    ) -> list[tf.Tensor]:
        """Applies pairs of blocks to x. Returns the hidden states [B·S, H] after each pair.

        With `pooled_only` the last pair computes only the first tokens, [B, H].
        """
        act, epsilon = self.config.hidden_act, self.config.layer_norm_eps
        ops = layer_ops(act, epsilon, is_fused=self.fused and training)
        block_parameters = {block: block.parameters() for block in dict.fromkeys(itertools.chain(*pairs))}
        is_repeated = len(pairs) > _FEW_LAYERS * len(set(pairs))
        is_traced = is_repeated and not training and not tf.executing_eagerly()

        @functools.cache
        def make_layer(
            attention: AttentionBlock, feed_forward: FeedForwardBlock, first_only: bool
        ) -> LayerFunction:
            """A pair as a function. If a graph for inference uses it often, it becomes a tf.function."""

            def layer(x: tf.Tensor, seeds: tuple, parameters: tuple) -> tf.Tensor:
                x = attention(x, parameters[0], bias, ops, seeds[:2], tokens, first_only)
                return feed_forward(x, parameters[1], ops, seeds[2] if seeds else None)

            return tf.function(layer, autograph=False) if is_traced else layer

        states = []
        for index, pair in enumerate(pairs):
            layer = make_layer(*pair, pooled_only and index == len(pairs) - 1)
            layer_seeds = tuple(seeds[3 * index : 3 * index + 3]) if seeds else ()
            parameters = tuple(block_parameters[block] for block in pair)
            if self.remat and training:
                x, parameters = recompute(layer, x, layer_seeds, parameters)
                block_parameters.update(zip(pair, parameters, strict=True))
            else:
                x = layer(x, layer_seeds, parameters)
            states.append(x)
        return states

    def _dropout_seeds(self, seed: Seed, pairs: int) -> list[tf.Tensor] | None:
        """One seed for the embeddings and three for each pair of blocks. None without dropout."""
        if self.config.hidden_dropout_prob == self.config.attention_probs_dropout_prob == 0:
            return None
        return tf.unstack(tf.random.split(draw_seed(seed), 1 + 3 * pairs, alg="philox"))


def with_pooled_output(outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """An encoder's outputs. Without a pooler the first token's last state becomes `pooled_output`."""
    if "pooled_output" in outputs:
        return outputs
    return {**outputs, "pooled_output": outputs["sequence_output"][:, 0]}  # [B, H]


def text_states(encoder: AlbertEncoder, inputs: ModelInputs) -> Outputs:
    """`pooled_output` [B, H] and `sequence_output` [B, S, H] of an encoder in inference."""
    outputs = with_pooled_output(encoder(inputs, training=False))
    return {name: outputs[name] for name in ("pooled_output", "sequence_output")}


def encoder_inputs(inputs: ModelInputs, max_length: int) -> list[tf.Tensor]:
    """Checks word ids, mask and type ids, and returns them, each [B, S] and of the type of the word ids.

    Args:
      inputs: dict of inputs (see `AlbertEncoder.call`).
      max_length: longest sequence allowed, in tokens.
    Raises:
      InputError: an input is missing, is not [B, S], or is too long; or ids are not integers.
      tf.errors.InvalidArgumentError: shapes disagree, where they are known only when the graph runs.
    """
    if not isinstance(inputs, Mapping) or WORD_IDS not in inputs:
        provided = ", ".join(sorted(inputs)) if isinstance(inputs, Mapping) else type(inputs).__name__
        names = ", ".join(ENCODER_INPUTS)
        raise InputError(f"{WORD_IDS} is missing: inputs must be a dict of {names}, not {provided}")
    if isinstance(inputs[WORD_IDS], tf.RaggedTensor):
        raise InputError(f"{WORD_IDS} is ragged: albert_tf.pack makes inputs of the encoder of token ids")
    word_ids = index_tensor(inputs[WORD_IDS])
    tensors = {WORD_IDS: word_ids}
    for name, values_like in ((INPUT_MASK, tf.ones_like), (TYPE_IDS, tf.zeros_like)):
        tensors[name] = index_tensor(inputs[name]) if name in inputs else values_like(word_ids)
    for name, tensor in tensors.items():
        if name != INPUT_MASK and not tensor.dtype.is_integer:
            raise InputError(f"{name} has type {tensor.dtype.name}: token ids are integers")
        if tensor.shape.rank not in (None, 2) or not tensor.shape.is_compatible_with(word_ids.shape):
            expected = "[batch, sequence], all of one shape"
            raise InputError(f"{name} has shape {tensor.shape}: inputs must be {expected}")
    length = word_ids.shape[1] if word_ids.shape.rank else None
    if length is not None and length > max_length:
        raise InputError(f"the sequence length {length} is more than max_position_embeddings={max_length}")
    # If shapes are known only when the graph runs, only tf.stack raises where they disagree: a sum would
    # broadcast, and a reshape would accept a transposed mask.
    return tf.unstack(tf.stack([tf.cast(x, word_ids.dtype) for x in tensors.values()]), num=3)


def index_tensor(values: Any, rank: int = 2) -> tf.Tensor:
    """Ids or positions, [B, …], as a tensor by which TensorFlow can gather: int32 or int64.

    Where Keras calls a model to build it, with float placeholders, it is int32.
    """
    tensor = tf.convert_to_tensor(values)
    if tensor.shape.rank is None:  # of tf.py_function, for example
        tensor = tf.ensure_shape(tensor, [None] * rank)
    if not tf.executing_eagerly() and tf.compat.v1.get_default_graph().name == "build_graph":
        return tf.cast(tensor, tf.int32)
    is_other = tensor.dtype.is_integer and tensor.dtype not in (tf.int32, tf.int64)
    return tf.cast(tensor, tf.int64) if is_other else tensor
