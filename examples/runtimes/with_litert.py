"""A converted network in LiteRT, text to answers: `pip install ai-edge-litert sentencepiece`.

python -m hub_export --run demo-output/run --output encoder-litert --to litert --seq_length 128
python examples/runtimes/with_litert.py encoder-litert "A text." "Another."
"""

from __future__ import annotations

import os

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from command_line import Arrays, Call, main


def load(file: str) -> tuple[Call, int]:
    """A function from the network's inputs to its outputs, arrays by name, and the length of the inputs."""
    interpreter = Interpreter(model_path=file, num_threads=os.cpu_count())
    runner = interpreter.get_signature_runner()

    def compute(inputs: Arrays) -> Arrays:
        # LiteRT's graph takes one row at a time.
        rows = range(len(inputs["input_word_ids"]))
        outputs = [runner(**{name: array[[row]] for name, array in inputs.items()}) for row in rows]
        return {name: np.concatenate([output[name] for output in outputs]) for name in outputs[0]}

    return compute, int(interpreter.get_input_details()[0]["shape"][-1])


if __name__ == "__main__":
    main(__doc__, "litert", "model.tflite", load)
