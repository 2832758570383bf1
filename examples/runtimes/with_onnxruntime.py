"""A converted network in ONNX Runtime, text to answers: `pip install onnxruntime sentencepiece`.

python -m hub_export --run demo-output/run --output encoder-onnx --to onnx
python examples/runtimes/with_onnxruntime.py encoder-onnx "A text." "Another."
"""

from __future__ import annotations

import onnxruntime
from command_line import Arrays, Call, main


def load(file: str) -> tuple[Call, None]:
    """A function from the network's inputs (of any shape) to its outputs, arrays by name."""
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def compute(inputs: Arrays) -> Arrays:
        return dict(zip(names, session.run(names, inputs), strict=True))

    return compute, None


if __name__ == "__main__":
    main(__doc__, "onnx", "model.onnx", load)
