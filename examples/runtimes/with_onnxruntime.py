"""An exported encoder in ONNX Runtime, text to embeddings: `pip install onnxruntime sentencepiece`.

The conversion also needs `pip install tf2onnx tensorflow`.

python examples/runtimes/with_onnxruntime.py demo-output/hub/encoder encoder.onnx "A text." "Another."
"""

from __future__ import annotations

import subprocess
import sys

import onnxruntime
from command_line import Inputs, main


def convert(encoder: str, output: str) -> None:
    """Writes the module as `output`, an .onnx file, for inputs of any shape."""
    command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", encoder, "--output", output]
    flags = ["--tag", "serve", "--signature_def", "serving_default", "--opset", "18"]
    subprocess.run([*command, *flags], check=True)


def load(model: str):
    """The converted encoder: from its inputs to `pooled_output`, float32 [B, H]."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    def pooled_output(inputs: Inputs):
        return session.run(["pooled_output"], inputs)[0]

    return pooled_output


if __name__ == "__main__":
    main(__doc__, convert, load)
