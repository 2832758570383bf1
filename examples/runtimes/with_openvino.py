"""A converted network in OpenVINO, text to answers: `pip install openvino sentencepiece`.

python -m hub_export --run demo-output/run --output encoder-openvino --to openvino
python examples/runtimes/with_openvino.py encoder-openvino "A text." "Another."
"""

from __future__ import annotations

import openvino
from command_line import Arrays, Call, main

# OpenVINO's default is bfloat16 where the processor has it.
EXACT = {"INFERENCE_PRECISION_HINT": "f32"}


def load(file: str, exact: bool = True) -> tuple[Call, None]:
    """A function from the network's inputs (of any shape) to its outputs, arrays by name."""
    compiled = openvino.compile_model(file, "CPU", EXACT if exact else {})

    def compute(inputs: Arrays) -> Arrays:
        return {output.any_name: array for output, array in compiled(inputs).items()}

    return compute, None


if __name__ == "__main__":
    main(__doc__, "openvino", "model.xml", load)
