"""OpenVINO with our exported encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import openvino

from benchmarks.peers.compared import BFLOAT16, Setting
from examples.runtimes.tokens import Tokens


class Network:
    """A compiled model, for inputs of any shape."""

    def __init__(self, setting: Setting):
        self.folder = setting.place
        model = openvino.convert_model(str(self.folder / "float32/encoder"))
        settings = {
            # Said in both directions: by itself it takes bfloat16 where the processor has it.
            "INFERENCE_PRECISION_HINT": "bf16" if setting.precision == BFLOAT16 else "f32",
            "INFERENCE_NUM_THREADS": setting.threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        self.compiled = openvino.compile_model(model, "CPU", settings)

    def parameters(self) -> None:
        """Not to be counted: products and copies of parameters are among the model's constants."""

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """One call of the model."""
        return lambda: self.pooled_output(inputs)

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """A tokenizer in Python, batches padded to their longest, the model."""
        tokens = Tokens(self.folder / "run")
        return lambda texts: self.pooled_output(tokens.inputs(texts))

    def pooled_output(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Of the encoder's inputs."""
        return self.compiled(inputs)["pooled_output"]
