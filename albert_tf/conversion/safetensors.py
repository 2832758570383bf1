"""Files of the safetensors format, a tensor at a time, so that a large file costs no memory."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from albert_tf.conversion.transfer import Tensors
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import read_json

# Names of NumPy and TensorFlow for those of the format.
_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}


def open_safetensors(path: Path) -> Tensors:
    """The tensors of a safetensors file, or of several with an index.

    Args:
      path: `model.safetensors`, or `model.safetensors.index.json` beside its parts.
    Returns:
      All tensors.
    Raises:
      ValueError: a file is damaged, or the index and its parts disagree.
      OSError: a file is missing or cannot be read.
    """
    files: dict[str, Path] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    weight_map = None if path.suffix != ".json" else _weight_map(path)
    for part in [path.name] if weight_map is None else part_names(path):
        with _opened(path.with_name(part)) as file:
            names = set(file.keys())
            for name in names:
                view = file.get_slice(name)
                files[name], shapes[name] = path.with_name(part), tuple(view.get_shape())
                dtypes[name] = _FLOATS.get(view.get_dtype(), view.get_dtype())
        if weight_map is not None:
            for name in sorted(names ^ {name for name, file in weight_map.items() if file == part}):
                raise InputError(f"{path}: {name} is not both there and in {part}")

    def read(name: str) -> np.ndarray:
        with _opened(files[name]) as file:  # anew: what was cut off meanwhile is an error and not a crash
            return file.get_tensor(name)

    return Tensors(str(path), shapes, dtypes, read)


def part_names(index: Path) -> list[str]:
    """The files that an index divides tensors among, all beside it; ValueError where it names none."""
    return sorted(set(_weight_map(index).values()))


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A file of the format, its header checked; ValueError where it is damaged."""
    try:
        with safe_open(path, "np") as file:
            yield file
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file, or damaged: {error}") from error


def _weight_map(path: Path) -> dict[str, str]:
    """The file of each tensor, by an index."""
    weight_map = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict) or not all(map(_is_file_name, weight_map.values())):
        raise InputError(f"{path} holds no weight_map of tensors to the names of files beside it")
    return weight_map


def _is_file_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w-][\w.-]*\.safetensors", value) is not None


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
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in shapes:
            file.write(np.ascontiguousarray(read(name), "<f4").data)  # tofile does not say why it fails
