"""An exported model in OpenVINO, text to answers: `pip install openvino sentencepiece`.

The conversion of a fine-tuned one also needs `pip install tensorflow tensorflow-text`.

python examples/runtimes/with_openvino.py demo-output/hub/encoder encoder.xml "A text." "Another."
"""

from __future__ import annotations

import openvino
from command_line import Arrays, main
from from_ids import from_ids

# Without this OpenVINO computes in bfloat16 on machines that can.
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def convert(module: str, output: str) -> None:
    """Writes the module as `output`, an .xml file, and a .bin file beside it, for inputs of any shape."""
    with from_ids(module) as folder:
        openvino.save_model(openvino.convert_model(folder), output, compress_to_fp16=False)


def load(model: str, exact: bool = True):
    """The converted module: from its inputs to its outputs, arrays by name."""
    compiled = openvino.compile_model(model, "CPU", EXACT if exact else {})

    def outputs(inputs: Arrays) -> Arrays:
        return {output.any_name: array for output, array in compiled(inputs).items()}

    return outputs


if __name__ == "__main__":
    main(__doc__, convert, load)
