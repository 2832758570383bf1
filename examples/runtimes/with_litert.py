"""An exported model in LiteRT, text to answers: `pip install ai-edge-litert sentencepiece`.

The conversion also needs `pip install tensorflow`, and of a fine-tuned model `tensorflow-text`. With `--int8`
the kernels are integers of 8 bits. All inputs have one shape: a text of `--length` tokens.

python examples/runtimes/with_litert.py demo-output/hub/encoder encoder.tflite "A text." "Another."
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from command_line import Arrays, main
from from_ids import from_ids


def convert(module: str, output: str, int8: bool = False, length: int = 128) -> None:
    """Writes the module as `output`, a .tflite file, for one input of `length` tokens."""
    import tensorflow as tf  # which who has the file does not need

    with from_ids(module) as folder:
        loaded = tf.saved_model.load(folder)
        signature = loaded.signatures["serving_default"]
        specs = signature.structured_input_signature[1]
        fixed = [
            tf.TensorSpec([1, *spec.shape[1:-1], length], tf.int32, name) for name, spec in specs.items()
        ]

        @tf.function(input_signature=fixed)
        def call(*inputs):
            return signature(**dict(zip(specs, inputs, strict=True)))

        loaded.call = call
        converter = tf.lite.TFLiteConverter.from_concrete_functions([call.get_concrete_function()], loaded)
        if int8:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        Path(output).write_bytes(converter.convert())


def load(model: str):
    """The converted module: from its inputs to its outputs, arrays by name; rows are taken in turn."""
    runner = Interpreter(model_path=model, num_threads=os.cpu_count()).get_signature_runner()

    def outputs(inputs: Arrays) -> Arrays:
        rows = range(len(inputs["input_word_ids"]))
        answers = [runner(**{name: array[[row]] for name, array in inputs.items()}) for row in rows]
        return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}

    return outputs


if __name__ == "__main__":
    main(__doc__, convert, load, litert=True)
