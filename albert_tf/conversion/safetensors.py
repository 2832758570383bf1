"""Files of the safetensors format, a tensor at a time, so that a large file costs no memory."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from albert_tf.checkpoints.tensor_bundle import Tensors
from albert_tf.utils.errors import InputError, shown
from albert_tf.utils.files import dump_json, read_json

# Names of NumPy and TensorFlow for those of the format.
_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def open_safetensors(path: Path) -> Tensors:
    """The tensors of a safetensors file, or of several with an index.

    Args:
      path: `model.safetensors`, or `model.safetensors.index.json` beside its parts.
    Raises:
      InputError: a file is damaged, or the index names no files.
      OSError: a file is missing or cannot be read.
    """
    parts = {path.name}
    if path.suffix == ".json":
        weight_map = read_json(path).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(part, str) for part in weight_map.values()):
            raise InputError(f"{path} holds no weight_map of tensors to the names of files beside it")
        parts = set(weight_map.values())
        if outside := sorted(part for part in parts if part in ("", "..") or Path(part).name != part):
            raise InputError(f"{path} names {shown(outside[0])}, which is no file beside it: copy it again")
    files: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for part in parts:
        with _opened(path.parent / part) as file:
            for name in file.keys():  # noqa: SIM118 - it cannot be iterated over
                view = file.get_slice(name)
                files[name], shapes[name] = path.parent / part, tuple(view.get_shape())
                dtypes[name] = _FLOATS.get(view.get_dtype(), view.get_dtype())

    def read(name: str) -> np.ndarray:
        with _opened(files[name]) as file:  # anew: what was cut off meanwhile is an error and not a crash
            return file.get_tensor(name)

    return Tensors(str(path), shapes, dtypes, read)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of the format, its header checked; InputError where it is damaged."""
    path.open("rb").close()  # of a file that may not be read the library says that there is none
    try:
        with safe_open(path, "np") as file:
            yield file
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file, or damaged: {error}") from error


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], np.ndarray]
) -> None:
    """Writes float32 tensors one at a time, which the library cannot: it takes all of them at once.

    Args:
      path: the file; in a folder that nobody reads yet, since it grows there.
      shapes: of every tensor, by name.
      read: the values of a tensor, by name.
    """
    # transformers reads no file that does not say what it was written for.
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = dump_json(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            file.write(np.ascontiguousarray(read(name), "<f4").data)  # tofile does not say why it fails
