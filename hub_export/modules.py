"""Modules for hub.KerasLayer: the preprocessor, the encoder and its heads."""

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

    A subclass adds a class-level `__call__`, a tf.function traced for every permitted argument: KerasLayer
    finds no trainable weights in a plain tf.Module. Keras objects stay in the closures of those functions, so
    that what is saved depends on no Keras. Variables are all that any call uses, in the source model's order;
    all can be trained.
    """

    def __init__(self, variables: Iterable[tf.Variable] = ()):
        super().__init__()
        self.variables = list(variables)
        self.trainable_variables = list(self.variables)
        self.regularization_losses: list[tf.types.experimental.GenericFunction] = []


def ids_spec(names: Sequence[str]) -> dict[str, tf.TensorSpec]:
    """Inputs by name, int32 [B, any length] each."""
    return {name: tf.TensorSpec([None, None], tf.int32, name) for name in names}


TEXT_SPEC = tf.TensorSpec([None], tf.string, "text")


class Preprocessor(Module):
    """Text to the encoder's inputs, and its steps as parts; `training` and `mask` change nothing.

    Its parts: `tokenize` is from string [B] to int32 [B, (tokens)], of WordPiece [B, (words), (tokens)],
    without special tokens; `tokenize_with_offsets` also gives the first byte of each token and the byte after
    its last, int64; `get_special_tokens_dict` of both has the ids of the special tokens and the vocabulary's
    size; `bert_pack_inputs` packs tokens. Each part works and can be saved without the others.

    Args:
      tokenizer: text to token ids.
      seq_length: length S of the inputs where the caller names none, in tokens.
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
        """Each text as one segment: string [B] to int32 [B, S] by name."""
        text = self._tokenizer.shorten_text(ensure_text_batch(text), self._seq_length)
        return pack([self.tokenize(text)], self._seq_length, self._input_format)


class Tokenization(Module):
    """A part of a preprocessor that makes tokens of texts, by a function of its tokenizer."""

    def __init__(self, tokenizer: TextTokenizer, tokenize: Callable[[tf.Tensor], Any]):
        super().__init__()
        self._tokenizer = tokenizer  # whose resources are saved with what is tracked
        self.get_special_tokens_dict = _special_tokens(tokenizer.vocabulary)
        # Concrete, so that the graphs of both calls have one copy of what the tokenizer holds.
        graph = tf.function(
            lambda text: tokenize(ensure_text_batch(text)), autograph=False
        ).get_concrete_function(TEXT_SPEC)
        self._tokenize = lambda text: graph(text)  # which is not saved beside them
        for training in (False, True):
            self.__call__.get_concrete_function(TEXT_SPEC, training)

    @tf.function(autograph=False)
    def __call__(self, text: tf.Tensor, training: bool = False, mask: None = None) -> Any:
        """The tokens, without the places that they have in their texts or with them."""
        return self._tokenize(text)


def _special_tokens(vocabulary: Vocabulary) -> tf.types.experimental.GenericFunction:
    """The size of a vocabulary and the ids of its special tokens, int32 scalars."""
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
    """The module that packs one or two segments into the encoder's inputs.

    It is from a list of one or two ragged int32, [B, (tokens)] or [B, (words), (tokens)] each, and
    `seq_length`, an int32 scalar, to int32 [B, seq_length] by name.
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
Forward = Callable[[Tensors, bool], dict[str, Any]]  # of inputs and `training`
Logits = Callable[[Tensors, Tensors], dict[str, tf.Tensor]]  # of the encoder's outputs and the inputs

# The attributes that are the files of a vocabulary; there are published modules of the first two kinds.
VOCABULARY_ASSETS = {
    SENTENCEPIECE: ("sp_model_file",),
    WORDPIECE: ("vocab_file",),
    BYTE_LEVEL_BPE: ("vocab_file", "merges_file"),
}


class Network(Module):
    """A forward pass that dropout makes different in training.

    `forward` is from the inputs, int32 [B, any length] each, and `training` to the outputs.
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
        """The outputs by name; `training` turns dropout on, `mask` is there as in a call of Keras."""
        outputs = self._forward(inputs, training)
        return tf.nest.map_structure(lambda tensor: tf.cast(tensor, tf.float32), outputs)

    @tf.function(autograph=False)
    def serve(self, inputs: Tensors) -> dict[str, Any]:
        """The call by the name that Keras 3's TFSMLayer looks for, which can call no signature of three."""
        return self(inputs)

    @tf.function(autograph=False)
    def call_training(self, inputs: Tensors) -> dict[str, Any]:
        """The call with dropout on, as an endpoint of its own: Keras 3's TFSMLayer passes no `training`."""
        return self(inputs, training=True)


def encoder_module(
    model: keras.Model,
    vocabulary: str | os.PathLike[str] | None = None,
    lowercase: bool = True,
    lengths: Sequence[int] | None = None,
) -> Network:
    """The encoder of a model as a module, and the heads of pre-training that the model has as its parts.

    Args:
      model: an AlbertEncoder or a model that has one as `encoder`. The module shares its variables.
      vocabulary: file of the vocabulary that travels with the module, as the asset `sp_model_file` of
        SentencePiece, `vocab_file` of WordPiece, `vocab_file` and `merges_file` of byte-level BPE.
      lowercase: what the variable `do_lower_case` beside it says of the text, bool.
      lengths: columns that XLA compiles the encoder for, ascending to the longest input; None: it does not.
    Returns:
      A module from `input_word_ids`, `input_mask`, `input_type_ids`, int32 [B, S], to float32
      `pooled_output` [B, H], also under the name `default`, `sequence_output` [B, S, H] and
      `encoder_outputs`, a list of L · inner_group_num [B, S, H]. Without a pooler `pooled_output` is the
      first token's last state. Of an AlbertPretrainer it also has `mlm`,
      whose input `masked_lm_positions` int32 [B, P] adds the output `mlm_logits` [B, P, V], and, named by
      its sentence objective, `sop` with `sop_logits` or `nsp` with `nsp_logits` [B, 2].
    """
    encoder = model if isinstance(model, AlbertEncoder) else model.encoder

    def plain(inputs: Tensors, training: bool) -> Tensors:
        return with_pooled_output(encoder(inputs, training=training))

    compute = plain if lengths is None else _compiled(encoder, lengths)

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
        module.mlm = _with_head(module, model.mlm, mlm_logits, MLM_POSITIONS)
        if model.sentence is not None:
            setattr(module, model.sentence_objective, _with_head(module, model.sentence, sentence_logits))
    if vocabulary is not None:
        kind = read_tokenizer_kind(vocabulary)
        for attribute, file in zip(VOCABULARY_ASSETS[kind], VOCABULARY_FILES[kind], strict=True):
            setattr(module, attribute, tf.saved_model.Asset(os.fspath(Path(vocabulary).with_name(file))))
        module.do_lower_case = tf.Variable(lowercase, trainable=False)
    return module


def _compiled(encoder: AlbertEncoder, lengths: Sequence[int]) -> Forward:
    """An encoder that XLA compiles, of inputs that are filled up in the graph.

    Columns are filled up to one of the lengths; several rows, but in training, to a multiple of ROWS_AT_ONCE.
    """

    @functools.partial(tf.function, autograph=False, jit_compile=True)
    def compute(inputs: Tensors, seed: tf.Tensor | None) -> dict[str, Any]:
        outputs = with_pooled_output(encoder(inputs, training=seed is not None, seed=seed))
        return {name: outputs[name] for name in OUTPUTS}

    def forward(inputs: Tensors, training: bool) -> dict[str, Any]:
        rows, columns = tf.unstack(tf.shape(inputs[INPUT_MASK]))
        several = -(-rows // ROWS_AT_ONCE) * ROWS_AT_ONCE
        wanted = rows if training else tf.where(rows > 1, several, rows)
        # The seed is drawn outside, where it is another one at each call.
        seed = draw_seed(None) if training else None
        outputs = compute(pad_inputs(inputs, wanted, next_length(columns, lengths)), seed)
        return tf.nest.map_structure(lambda x: x[:rows] if x.shape.rank == 2 else x[:rows, :columns], outputs)

    return forward


def _with_head(module: Network, head: keras.layers.Layer, logits: Logits, *further_inputs: str) -> Network:
    """An encoder's module with a head, whose graph calls the encoder's: that is saved once."""

    def forward(inputs: Tensors, training: bool) -> dict[str, Any]:
        outputs = module({name: inputs[name] for name in ENCODER_INPUTS}, training=training)
        return {**outputs, **logits(outputs, inputs)}

    return Network(forward, (*ENCODER_INPUTS, *further_inputs), [*module.variables, *head.weights])
