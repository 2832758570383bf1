"""An exported encoder in LiteRT, text to embeddings: `pip install ai-edge-litert sentencepiece`.

The conversion also needs `pip install tensorflow`. With `--int8` the kernels are integers of 8 bits. All
inputs have one shape: a text of `--length` tokens.

python examples/runtimes/with_litert.py demo-output/hub/encoder encoder.tflite "A text." "Another."
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from command_line import Inputs, main


def convert(encoder: str, output: str, int8: bool = False, length: int = 128) -> None:
    """Writes the module as `output`, a .tflite file, for one input of `length` tokens."""
    import tensorflow as tf  # which who has the file does not need

    module = tf.saved_model.load(encoder)
    signature = module.signatures["serving_default"]
    names = ("input_word_ids", "input_mask", "input_type_ids")
    spec = [tf.TensorSpec([1, length], tf.int32, name) for name in names]

    @tf.function(input_signature=spec)
    def fixed(input_word_ids, input_mask, input_type_ids):
        return signature(**dict(zip(names, (input_word_ids, input_mask, input_type_ids), strict=True)))

    module.fixed = fixed
    converter = tf.lite.TFLiteConverter.from_concrete_functions([fixed.get_concrete_function()], module)
    if int8:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    Path(output).write_bytes(converter.convert())


def load(model: str):
    """The converted encoder: from its inputs to `pooled_output`, float32 [B, H]; rows are taken in turn."""
    runner = Interpreter(model_path=model, num_threads=os.cpu_count()).get_signature_runner()

    def pooled_output(inputs: Inputs):
        rows = range(len(inputs["input_word_ids"]))
        answers = [runner(**{name: array[[row]] for name, array in inputs.items()}) for row in rows]
        return np.concatenate([answer["pooled_output"] for answer in answers])

    return pooled_output


if __name__ == "__main__":
    main(__doc__, convert, load, litert=True)
