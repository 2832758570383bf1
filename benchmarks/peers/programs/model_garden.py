"""TensorFlow's Model Garden: tf-models-official, with or without XLA."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
import tf_keras as keras
from official.modeling import tf_utils
from official.nlp import optimization
from official.nlp.modeling import layers, models, networks
from official.nlp.tools import tf2_albert_encoder_checkpoint_converter as converter

from benchmarks.peers.cases import BFLOAT16, TEXT_LENGTH, Setting, read_config


class Network:
    """AlbertEncoder with our weights, by Model Garden's own converter of TF 1 checkpoints."""

    def __init__(self, setting: Setting):
        if setting.precision == BFLOAT16:
            keras.mixed_precision.set_global_policy("mixed_bfloat16")
        self.folder, self.xla = setting.path, setting.options.get("xla", False)
        self.config = SimpleNamespace(**read_config(self.folder))
        self.encoder = self.new_encoder()
        (source,) = (self.folder / "google").glob("*.index")
        with tempfile.TemporaryDirectory() as scratch:
            checkpoint = f"{scratch}/encoder"
            converter.convert_checkpoint(self.config, checkpoint, str(source.with_suffix("")), "encoder")
            (written,) = Path(scratch).glob("encoder*.index")
            restored = tf.train.Checkpoint(encoder=self.encoder).read(str(written.with_suffix("")))
            restored.assert_existing_objects_matched().expect_partial()

    def new_encoder(self) -> networks.AlbertEncoder:
        """An encoder as the converter creates it, but with outputs by name."""
        config = self.config
        return networks.AlbertEncoder(
            vocab_size=config.vocab_size,
            embedding_width=config.embedding_size,
            hidden_size=config.hidden_size,
            num_layers=config.num_hidden_layers,
            num_attention_heads=config.num_attention_heads,
            max_sequence_length=config.max_position_embeddings,
            type_vocab_size=config.type_vocab_size,
            intermediate_size=config.intermediate_size,
            activation=tf_utils.get_activation(config.hidden_act),
            dropout_rate=config.hidden_dropout_prob,
            attention_dropout_rate=config.attention_probs_dropout_prob,
            dict_outputs=True,
        )

    def parameters(self) -> int:
        """The number of parameters of the encoder."""
        return self.encoder.count_params()

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """The encoder in a tf.function."""
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        compute = self.make_encoder_fn()
        return lambda: compute(tensors).numpy()

    def make_encoder_fn(self) -> Callable[[Mapping[str, tf.Tensor]], tf.Tensor]:
        """A function from the encoder's inputs to its pooled output in float32."""

        @tf.function(jit_compile=self.xla or None)
        def compute(tensors: Mapping[str, tf.Tensor]) -> tf.Tensor:
            outputs = self.encoder(tensors, training=False)
            return tf.cast(outputs["pooled_output"], tf.float32)

        return compute

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """The layers of its preprocessor, which pad to one length, and the encoder."""
        tokenizer = layers.SentencepieceTokenizer(
            lower_case=True, strip_diacritics=True, model_file_path=str(self.folder / "run/spiece.model")
        )
        pack = layers.BertPackInputs(TEXT_LENGTH, special_tokens_dict=tokenizer.get_special_tokens_dict())
        preprocess = tf.function(lambda texts: pack([tokenizer(texts)]))
        compute = self.make_encoder_fn()
        return lambda texts: compute(preprocess(tf.constant(texts))).numpy()

    def update(self, batch: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """BertPretrainerV2 with its MLM head and a sentence head; AdamWeightDecay, which clips."""
        head = layers.ClassificationHead(self.config.hidden_size, num_classes=2, name="sentence")
        activation = tf_utils.get_activation(self.config.hidden_act)
        model = models.BertPretrainerV2(self.new_encoder(), activation, classification_heads=[head])
        optimizer = optimization.create_optimizer(1e-5, 10**6, 0, optimizer_type="adamw")
        cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        labels = (batch["masked_lm_ids"], batch["sentence_order_labels"])
        inputs = {name: array for name, array in batch.items() if name.startswith("input_")}
        inputs["masked_lm_positions"] = batch["masked_lm_positions"]
        tensors = {name: tf.constant(array) for name, array in inputs.items()}

        @tf.function(jit_compile=self.xla or None)
        def compute_gradients(tensors: Mapping[str, tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
            with tf.GradientTape() as tape:
                outputs = model(tensors, training=True)
                logits = (tf.cast(outputs[name], tf.float32) for name in ("mlm_logits", "sentence"))
                loss = tf.add_n([cross_entropy(x, y) for x, y in zip(labels, logits, strict=True)])
            # The encoder's pooler is not in this loss: the sentence head has one of its own.
            return loss, tape.gradient(loss, model.trainable_variables)

        @tf.function
        def step(tensors: Mapping[str, tf.Tensor]) -> tf.Tensor:
            loss, grads = compute_gradients(tensors)
            pairs = zip(grads, model.trainable_variables, strict=True)
            optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])
            return loss

        return lambda: float(step(tensors))
