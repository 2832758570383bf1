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

from benchmarks.peers.cases import Setting
from examples.runtimes.tokens import ConvertedTokenizer


class Network:
    """A session, for inputs of any shape."""

    def __init__(self, setting: Setting):
        self.folder = setting.path
        self.file = self.folder / "encoder.onnx"
        if not self.file.exists():
            convert_to_onnx(self.folder / "float32/encoder", self.file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = setting.threads
        # Threads that spin while they wait would take the cores from the next program.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(self.file), options, providers)

    def parameters(self) -> int:
        """The number of parameters in the file: the sizes of its float arrays, without scalar constants."""
        arrays = onnx.load(self.file).graph.initializer
        sizes = [math.prod(array.dims) for array in arrays if array.data_type == onnx.TensorProto.FLOAT]
        return sum(size for size in sizes if size > 1)

    def forward(self, inputs: Mapping[str, np.ndarray]) -> Callable[[], np.ndarray]:
        """One call of the session."""
        return lambda: self.pooled_output(inputs)

    def text(self) -> Callable[[list[str]], np.ndarray]:
        """A tokenizer in Python, batches padded to their longest, the session."""
        tokenizer = ConvertedTokenizer(self.folder / "run")
        return lambda texts: self.pooled_output(tokenizer(texts))

    def pooled_output(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """The pooled output for the encoder's inputs."""
        return self.session.run(["pooled_output"], dict(inputs))[0]


def convert_to_onnx(encoder: Path, file: Path) -> None:
    """Converts the exported encoder to an .onnx file."""
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", str(encoder), "--output", str(file)]
    flags = ["--tag", "serve", "--signature_def", "serving_default", "--opset", "18"]
    subprocess.run([*command, *flags], check=True)
