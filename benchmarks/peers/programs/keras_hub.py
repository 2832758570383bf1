"""KerasHub on TensorFlow, with or without XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from benchmarks.peers.cases import BFLOAT16, Setting

# Our names of the inputs, and the library's.
NAMES = {
    "input_word_ids": "token_ids",
    "input_mask": "padding_mask",
    "input_type_ids": "segment_ids",
    "masked_lm_positions": "mask_positions",
}


class Network:
    """AlbertBackbone with our weights, by KerasHub's own converter of Hugging Face's checkpoints."""

    def __init__(self, setting: Setting):
        self.xla = setting.options.get("xla", False)
        self.backbone = keras_hub.models.AlbertBackbone.from_preset(
            str(setting.path / "huggingface"),
            dtype="mixed_bfloat16" if setting.precision == BFLOAT16 else "float32",
        )

    def parameters(self) -> int:
        """The number of parameters of the backbone."""
        return self.backbone.count_params()

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """The backbone in a tf.function."""
        tensors = {NAMES[name]: tf.constant(array) for name, array in inputs.items()}

        @tf.function(jit_compile=self.xla or None)
        def compute(tensors: Mapping[str, tf.Tensor]) -> tf.Tensor:
            outputs = self.backbone(tensors, training=False)
            return tf.cast(outputs["pooled_output"], tf.float32)

        return lambda: compute(tensors).numpy()

    def update(self, batch: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """AlbertMaskedLM and a sentence head on its backbone; train_on_batch with AdamW, which clips."""
        masked_lm = keras_hub.models.AlbertMaskedLM(self.backbone)
        pooled_output = self.backbone(self.backbone.input)["pooled_output"]
        sentence = keras.layers.Dense(2, dtype=self.backbone.dtype_policy)(pooled_output)
        model = keras.Model(masked_lm.input, {"mlm": masked_lm.output, "sentence": sentence})
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(
            keras.optimizers.AdamW(1e-5, weight_decay=0.01, global_clipnorm=1.0),
            {"mlm": loss, "sentence": loss},
            jit_compile=self.xla,
        )
        inputs = {NAMES[name]: array for name, array in batch.items() if name in NAMES}
        labels = {"mlm": batch["masked_lm_ids"], "sentence": batch["sentence_order_labels"]}
        return lambda: float(np.sum(model.train_on_batch(inputs, labels)))
