"""An exported encoder in OpenVINO, text to embeddings: `pip install openvino sentencepiece`.

python examples/runtimes/with_openvino.py demo-output/hub/encoder encoder.xml "A text." "Another."
"""

from __future__ import annotations

import openvino
from command_line import Inputs, main

# Without this OpenVINO computes in bfloat16 on machines that can.
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def convert(encoder: str, output: str) -> None:
    """Writes the module as `output`, an .xml file, and a .bin file beside it, for inputs of any shape."""
    openvino.save_model(openvino.convert_model(encoder), output, compress_to_fp16=False)


def load(model: str, exact: bool = True):
    """The converted encoder: from its inputs to `pooled_output`, float32 [B, H]."""
    compiled = openvino.compile_model(model, "CPU", EXACT if exact else {})

    def pooled_output(inputs: Inputs):
        return compiled(inputs)["pooled_output"]

    return pooled_output


if __name__ == "__main__":
    main(__doc__, convert, load)
