"""This project: exported modules in TensorFlow, and an update as `albert-tf pretrain` computes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  operations of the serving model

import albert_tf
from albert_tf.constants import POLICIES
from benchmarks.peers.cases import Setting
from benchmarks.update import make_update_fn


class Network:
    """The exported modules, and a new model for updates."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.exported = setting.path / setting.precision

    def parameters(self) -> int:
        """The number of parameters of the exported encoder."""
        encoder = tf.saved_model.load(str(self.exported / "encoder"))
        return sum(variable.shape.num_elements() for variable in encoder.variables)

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """The signature of the exported encoder, for inputs of any shape."""
        encoder = tf.saved_model.load(str(self.exported / "encoder"))
        signature = encoder.signatures["serving_default"]
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        return lambda: pooled_output(signature(**tensors))

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """The signature of the exported serving model."""
        serving = tf.saved_model.load(str(self.exported / "serving/1"))
        signature = serving.signatures["serving_default"]
        return lambda texts: pooled_output(signature(text=tf.constant(texts)))

    def update(self, batch: Mapping[str, np.ndarray]) -> Callable[[], float]:
        """An update of the training loop: MLM and SOP, clipping, AdamW."""
        config = albert_tf.AlbertConfig.from_json_file(self.setting.path / "config.json")
        return make_update_fn(config, dict(batch), POLICIES[self.setting.precision], fused=True)


def pooled_output(outputs: Mapping[str, tf.Tensor]) -> np.ndarray:
    """The pooled output in float32."""
    return outputs["pooled_output"].numpy().astype(np.float32)
