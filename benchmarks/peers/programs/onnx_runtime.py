"""ONNX Runtime with our exported encoder, converted by tf2onnx."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from benchmarks.peers.compared import Setting
from examples.runtimes.tokens import Tokens


class Network:
    """A session, for inputs of any shape."""

    def __init__(self, setting: Setting):
        self.folder = setting.place
        self.file = self.folder / "encoder.onnx"
        if not self.file.exists():
            convert(self.folder / "float32/encoder", self.file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = setting.threads
        # Threads that wait by spinning would take the cores from the program that is asked next.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(self.file), options, providers)

    def parameters(self) -> int:
        """Of the file: the numbers in all arrays of floats but the constants, which have one."""
        arrays = onnx.load(self.file).graph.initializer
        sizes = [math.prod(array.dims) for array in arrays if array.data_type == onnx.TensorProto.FLOAT]
        return sum(size for size in sizes if size > 1)

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """One call of the session."""
        return lambda: self.pooled_output(inputs)

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """A tokenizer in Python, batches padded to their longest, the session."""
        tokens = Tokens(self.folder / "run")
        return lambda texts: self.pooled_output(tokens.inputs(texts))

    def pooled_output(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Of the encoder's inputs."""
        return self.session.run(["pooled_output"], dict(inputs))[0]


def convert(encoder: Path, file: Path) -> None:
    """The exported encoder as .onnx."""
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", str(encoder), "--output", str(file)]
    flags = ["--tag", "serve", "--signature_def", "serving_default", "--opset", "18"]
    subprocess.run([*command, *flags], check=True)
