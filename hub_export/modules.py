"""The modules for hub.KerasLayer: the preprocessor, and the encoder with its heads."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
import tf_keras as keras

from albert_tf.constants import ENCODER_INPUTS, INPUT_MASK, MLM_POSITIONS, Tensors
from albert_tf.models.compiled_encoder import ROWS_AT_ONCE, next_length, pad_inputs
from albert_tf.models.encoder import AlbertEncoder, with_pooled_output
from albert_tf.models.layers import draw_seed
from albert_tf.models.task_models import AlbertPretrainer
from albert_tf.text.packing import pack
from albert_tf.text.text_tokenizer import InputFormat, ensure_text_batch
from albert_tf.text.tokenizer import TextTokenizer, Vocabulary
from albert_tf.text.tokenizer_config import (
    BYTE_LEVEL_BPE,
    SENTENCEPIECE,
    VOCABULARY_FILES,
    WORDPIECE,
    read_tokenizer_kind,
)


class Module(tf.train.Checkpoint):
    """An object that `tf.saved_model.save` writes and `hub.KerasLayer` reads with all its weights.

    It is not a plain tf.Module, in which KerasLayer finds no trainable weights. A subclass adds a class-level
    `__call__`, a tf.function that is traced for every permitted argument. Only the closures of such functions
    hold Keras objects, so a saved module does not depend on Keras.

    Args:
      variables: all variables that a call uses, in the order of the source model. All are trainable.
    """

    def __init__(self, variables: Iterable[tf.Variable] = ()):
        super().__init__()
        self.variables = list(variables)
        self.trainable_variables = list(self.variables)
        self.regularization_losses: list[tf.types.experimental.GenericFunction] = []


def ids_spec(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Specifications of inputs by name, each int32 [B, any length]."""
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


TEXT_SPEC = tf.TensorSpec([None], tf.string, "text")


class Preprocessor(Module):
    """Turns text into the encoder's inputs. Each step is an attribute, too.

    `training` and `mask` have no effect.

    `tokenize` turns string [B] into int32 [B, (tokens)], or for WordPiece [B, (words), (tokens)], without
    special tokens. `tokenize_with_offsets` also returns int64 offsets: the first byte of each token and the
    byte after its last. `get_special_tokens_dict` of both returns the ids of special tokens and the
    vocabulary's size. `bert_pack_inputs` packs tokens. Each part can be used and saved without the others.

    Args:
      tokenizer: turns text into token ids.
      seq_length: default length S of the inputs, in tokens.
    """

    def __init__(self, tokenizer: TextTokenizer, seq_length: int = 128):
        super().__init__()
        self._tokenizer, self._seq_length = tokenizer, seq_length
        self._input_format = tokenizer.vocabulary.input_format
        self.tokenize = Tokenization(tokenizer, tokenizer.tokenize_words)
        with_offsets = tokenizer.tokenize_words_with_offsets
        self.tokenize_with_offsets = Tokenization(tokenizer, lambda text: list(with_offsets(text)))
        self.bert_pack_inputs = bert_pack_inputs(seq_length, self._input_format)
        for training in (False, True):
            self.__call__.get_concrete_function(TEXT_SPEC, training)

    @tf.function(autograph=False)
    def __call__(self, text: tf.Tensor, training: bool = False, mask: None = None) -> dict[str, tf.Tensor]:
        """Packs each text as one segment: string [B] to a dict of int32 [B, S]."""
        text = self._tokenizer.shorten_text(ensure_text_batch(text), self._seq_length)
        return pack([self.tokenize(text)], self._seq_length, self._input_format)


class Tokenization(Module):
    """A part of a preprocessor that turns texts into tokens, by a function of its tokenizer."""

    def __init__(self, tokenizer: TextTokenizer, tokenize: Callable[[tf.Tensor], Any]):
        super().__init__()
        self._tokenizer = tokenizer  # tracked, so that its resources are saved
        self.get_special_tokens_dict = _special_tokens_function(tokenizer.vocabulary)
        # A concrete function, so that the graphs of both calls share one copy of the tokenizer's constants.
        graph = tf.function(
            lambda text: tokenize(ensure_text_batch(text)), autograph=False
        ).get_concrete_function(TEXT_SPEC)
        self._tokenize = lambda text: graph(text)  # a lambda, so that it is not saved as a further function
        for training in (False, True):
            self.__call__.get_concrete_function(TEXT_SPEC, training)

    @tf.function(autograph=False)
    def __call__(self, text: tf.Tensor, training: bool = False, mask: None = None) -> Any:
        """The tokens of texts, and their offsets if this part returns offsets."""
        return self._tokenize(text)


def _special_tokens_function(vocabulary: Vocabulary) -> tf.types.experimental.GenericFunction:
    """A function that returns the vocabulary's size and the ids of its special tokens, int32 scalars."""
    special = vocabulary.special_ids
    ids = {
        "vocab_size": len(vocabulary),
        "padding_id": special.padding,
        "start_of_sequence_id": special.start,
        "end_of_segment_id": special.separator,
        "mask_id": special.mask,
    }
    return tf.function(lambda: tf.nest.map_structure(tf.constant, ids), input_signature=[], autograph=False)


def bert_pack_inputs(default_length: int, input_format: InputFormat) -> Module:
    """A module that packs one or two segments into the encoder's inputs.

    Its arguments are a list of one or two ragged int32 tensors, each [B, (tokens)] or [B, (words), (tokens)],
    and `seq_length`, an int32 scalar. It returns a dict of int32 [B, seq_length].
    """

    @tf.function(autograph=False)
    def call(
        segments: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor = default_length
    ) -> dict[str, tf.Tensor]:
        return pack(segments, seq_length, input_format)

    ranks = [tf.RaggedTensorSpec([None] * rank, tf.int32) for rank in (2, 3)]
    for segments in itertools.chain(itertools.product(ranks), itertools.product(ranks, ranks)):
        call.get_concrete_function(list(segments), seq_length=tf.TensorSpec([], tf.int32, "seq_length"))
    return type("BertPackInputs", (Module,), {"__call__": staticmethod(call)})()


OUTPUTS = ("pooled_output", "sequence_output", "encoder_outputs")
Forward = Callable[[Tensors, bool], dict[str, Any]]  # inputs and `training` to outputs
Logits = Callable[[Tensors, Tensors], dict[str, tf.Tensor]]  # the encoder's outputs and the inputs to logits

# Attributes that hold the files of a vocabulary. The first two kinds have the names of published modules.
VOCABULARY_ASSETS = {
    SENTENCEPIECE: ("sp_model_file",),
    WORDPIECE: ("vocab_file",),
    BYTE_LEVEL_BPE: ("vocab_file", "merges_file"),
}


class Network(Module):
    """A module that runs a network, in training with dropout.

    Args:
      forward: function from a dict of int32 [B, any length] and `training` to a dict of outputs.
      inputs: names of the inputs.
      variables: all variables of the network.
    """

    def __init__(self, forward: Forward, inputs: tuple[str, ...], variables: list[tf.Variable]):
        super().__init__(variables)
        self._forward = forward
        spec = ids_spec(inputs)
        for training in (False, True):
            self.__call__.get_concrete_function(spec, training=training)
        self.serve.get_concrete_function(spec)
        self.call_training.get_concrete_function(spec)

    @tf.function(autograph=False)
    def __call__(self, inputs: Tensors, training: bool = False, mask: None = None) -> dict[str, Any]:
        """The outputs by name. `training` turns dropout on; `mask` has no effect: Keras passes it."""
        outputs = self._forward(inputs, training)
        return tf.nest.map_structure(lambda tensor: tf.cast(tensor, tf.float32), outputs)

    @tf.function(autograph=False)
    def serve(self, inputs: Tensors) -> dict[str, Any]:
        """The call, for Keras 3's TFSMLayer, which cannot call a signature with three inputs."""
        return self(inputs)

    @tf.function(autograph=False)
    def call_training(self, inputs: Tensors) -> dict[str, Any]:
        """The call with dropout, as an endpoint of Keras 3's TFSMLayer: it does not pass `training`."""
        return self(inputs, training=True)


def encoder_module(
    model: keras.Model,
    vocabulary: str | os.PathLike[str] | None = None,
    lowercase: bool = True,
    lengths: Sequence[int] | None = None,
) -> Network:
    """The encoder of a model as a module. Heads of pre-training, if any, are parts of the module.

    Args:
      model: an AlbertEncoder or a model that has one as `encoder`. The module shares its variables.
      vocabulary: file of the vocabulary to save with the module. The asset is `sp_model_file` for
        SentencePiece, `vocab_file` for WordPiece, `vocab_file` and `merges_file` for byte-level BPE.
      lowercase: value of the variable `do_lower_case`, which is saved beside the vocabulary.
      lengths: numbers of columns that XLA compiles the encoder for, ascending. The last one is the longest
        input. None: no XLA.
    Returns:
      A module with the inputs `input_word_ids`, `input_mask` and `input_type_ids`, int32 [B, S]. Its outputs
      are float32: `pooled_output` [B, H], also named `default`, `sequence_output` [B, S, H] and
      `encoder_outputs`, a list of L · inner_group_num tensors [B, S, H]. Without a pooler, `pooled_output` is
      the first token's last state. For an AlbertPretrainer the module has further modules as attributes.
      `mlm` has the further input `masked_lm_positions` int32 [B, P] and the further output `mlm_logits` [B,
      P, V]. `sop` or `nsp` has the further output `sop_logits` or `nsp_logits` [B, 2].
    """
    encoder = model.encoder

    def call_encoder(inputs: Tensors, training: bool) -> Tensors:
        return with_pooled_output(encoder(inputs, training=training))

    compute = call_encoder if lengths is None else _compile_encoder(encoder, lengths)

    def encode(inputs: Tensors, training: bool) -> dict[str, Any]:
        outputs = compute(inputs, training)
        return {"default": outputs["pooled_output"], **{name: outputs[name] for name in OUTPUTS}}

    def mlm_logits(outputs: Tensors, inputs: Tensors) -> dict[str, tf.Tensor]:
        sequence = tf.cast(outputs["sequence_output"], encoder.compute_dtype)
        words = encoder.embeddings.word_embeddings
        return {"mlm_logits": model.mlm(sequence, inputs[MLM_POSITIONS], words)}

    def sentence_logits(outputs: Tensors, inputs: Tensors) -> dict[str, tf.Tensor]:
        pooled = tf.cast(outputs["pooled_output"], encoder.compute_dtype)
        return {f"{model.sentence_objective}_logits": model.sentence(pooled)}

    module = Network(encode, ENCODER_INPUTS, encoder.weights)
    if isinstance(model, AlbertPretrainer):
        module.mlm = _add_head(module, model.mlm, mlm_logits, MLM_POSITIONS)
        if model.sentence is not None:
            setattr(module, model.sentence_objective, _add_head(module, model.sentence, sentence_logits))
    if vocabulary is not None:
        kind = read_tokenizer_kind(vocabulary)
        for attribute, file in zip(VOCABULARY_ASSETS[kind], VOCABULARY_FILES[kind], strict=True):
            setattr(module, attribute, tf.saved_model.Asset(os.fspath(Path(vocabulary).with_name(file))))
        module.do_lower_case = tf.Variable(lowercase, trainable=False)
    return module


def _compile_encoder(encoder: AlbertEncoder, lengths: Sequence[int]) -> Forward:
    """A forward pass that XLA compiles. It pads the inputs in the graph, so that there are few shapes.

    Columns are padded to one of the lengths. In inference several rows are padded to a multiple of
    ROWS_AT_ONCE.
    """

    @functools.partial(tf.function, autograph=False, jit_compile=True)
    def compute(inputs: Tensors, seed: tf.Tensor | None) -> dict[str, Any]:
        outputs = with_pooled_output(encoder(inputs, training=seed is not None, seed=seed))
        return {name: outputs[name] for name in OUTPUTS}

    def forward(inputs: Tensors, training: bool) -> dict[str, Any]:
        rows, columns = tf.unstack(tf.shape(inputs[INPUT_MASK]))
        multiple = -(-rows // ROWS_AT_ONCE) * ROWS_AT_ONCE
        padded_rows = rows if training else tf.where(rows > 1, multiple, rows)
        # Drawn outside of the compiled function, so that each call has another seed.
        seed = draw_seed(None) if training else None
        outputs = compute(pad_inputs(inputs, padded_rows, next_length(columns, lengths)), seed)
        return tf.nest.map_structure(lambda x: x[:rows] if x.shape.rank == 2 else x[:rows, :columns], outputs)

    return forward


def _add_head(module: Network, head: keras.layers.Layer, logits: Logits, *further_inputs: str) -> Network:
    """An encoder's module with a head. Its graph calls the encoder's graph, which is saved only once."""

    def forward(inputs: Tensors, training: bool) -> dict[str, Any]:
        outputs = module({name: inputs[name] for name in ENCODER_INPUTS}, training=training)
        return {**outputs, **logits(outputs, inputs)}

    return Network(forward, (*ENCODER_INPUTS, *further_inputs), [*module.variables, *head.weights])
