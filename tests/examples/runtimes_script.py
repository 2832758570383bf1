"""What other runtimes answer, run in an environment of its own: `python … EXAMPLES FOLDER`.

Reads `FOLDER/inputs-<length>.npz` and the models that EXAMPLES converted into FOLDER, and writes their
answers as `<runtime>-<length>` to `FOLDER/answers.npz`.
"""

import importlib
import sys
from pathlib import Path

import numpy as np

# By name: script, model, and the only length that it takes, if there is one.
RUNTIMES = {
    "openvino": ("with_openvino", "encoder.xml", None),
    "onnxruntime": ("with_onnxruntime", "encoder.onnx", None),
    "litert": ("with_litert", "encoder.tflite", 128),
    "litert_int8": ("with_litert", "encoder_int8.tflite", 128),
}


def main(examples: Path, folder: Path) -> None:
    """Asks all of them."""
    sys.path.append(str(examples))
    answers = {}
    for path in sorted(folder.glob("inputs-*.npz")):
        length = int(path.stem.partition("-")[2])
        for name, (module, model, only) in RUNTIMES.items():
            if only in (None, length):
                pooled_output = importlib.import_module(module).load(str(folder / model))
                answers[f"{name}-{length}"] = pooled_output(dict(np.load(path)))
    np.savez(folder / "answers.npz", **answers)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
