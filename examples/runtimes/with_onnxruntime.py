"""An exported model in ONNX Runtime, text to answers: `pip install onnxruntime sentencepiece`.

The conversion also needs `pip install tf2onnx tensorflow`, and of a fine-tuned model `tensorflow-text`.

python examples/runtimes/with_onnxruntime.py demo-output/hub/encoder encoder.onnx "A text." "Another."
"""

from __future__ import annotations

import subprocess
import sys

import onnxruntime
from command_line import Arrays, main
from from_ids import from_ids


def convert(module: str, output: str) -> None:
    """Writes the module as `output`, an .onnx file, for inputs of any shape."""
    flags = ["--tag", "serve", "--signature_def", "serving_default", "--opset", "18"]
    with from_ids(module) as folder:
        command = [sys.executable, "-m", "tf2onnx.convert", "--saved-model", folder, "--output", output]
        subprocess.run([*command, *flags], check=True)


def load(model: str):
    """The converted module: from its inputs to its outputs, arrays by name."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def outputs(inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return outputs


if __name__ == "__main__":
    main(__doc__, convert, load)
