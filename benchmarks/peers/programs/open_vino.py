"""OpenVINO with our exported encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import openvino

from benchmarks.peers.cases import BFLOAT16, Setting
from examples.runtimes.tokens import ConvertedTokenizer


class Network:
    """A compiled model, for inputs of any shape."""

    def __init__(self, setting: Setting):
        self.folder = setting.path
        model = openvino.convert_model(str(self.folder / "float32/encoder"))
        settings = {
            # Set for both precisions: OpenVINO's default is bfloat16 where the processor has it.
            "INFERENCE_PRECISION_HINT": "bf16" if setting.precision == BFLOAT16 else "f32",
            "INFERENCE_NUM_THREADS": setting.threads,
            "PERFORMANCE_HINT": "LATENCY",
        }
        self.compiled = openvino.compile_model(model, "CPU", settings)

    def parameters(self) -> None:
        """None: the model's constants contain products and copies of parameters."""

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """One call of the model."""
        return lambda: self.pooled_output(inputs)

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """A tokenizer in Python, batches padded to their longest, the model."""
        tokenizer = ConvertedTokenizer(self.folder / "run")
        return lambda texts: self.pooled_output(tokenizer(texts))

    def pooled_output(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The pooled output for the encoder's inputs."""
        return self.compiled(inputs)["pooled_output"]
