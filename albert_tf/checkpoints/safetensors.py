"""Files of the safetensors format: a length, a JSON header, and the tensors one after another.

Read and written a tensor at a time, so that a large file costs no memory. Nothing in a header is believed
before it is checked.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf.checkpoints.run import read_json
from albert_tf.checkpoints.transfer import Tensors
from albert_tf.errors import InputError

# A header of a million tensors; more is a damaged length.
_MAX_HEADER = 100 << 20
_MAX_RANK = 8

_DTYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": tf.bfloat16.as_numpy_dtype,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}


class Entry(NamedTuple):
    """Where a tensor is in a file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    start: int  # bytes from the beginning of the file
    end: int


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a file, by name.

    Args:
      path: the file.
    Returns:
      An entry each, inside the file.
    Raises:
      ValueError: the file is damaged, or no safetensors file; the message names it.
      OSError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= min(size - 8, _MAX_HEADER):
                raise InputError(f"a header of {length} bytes in a file of {size}")
            header = json.loads(file.read(length).decode(), object_pairs_hook=_without_repetition)
        if not isinstance(header, dict):
            raise InputError(f"the header is a {type(header).__name__}, not an object")
        header.pop("__metadata__", None)
        entries = {name: _entry(name, value, 8 + length) for name, value in header.items()}
        end = 8 + length
        for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
            if entry.start != end:
                raise InputError(f"{name} begins at byte {entry.start}, where {end} was expected")
            end = entry.end
        if end != size:
            raise InputError(f"the tensors end at byte {end}, the file at {size}")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no safetensors file, or damaged: {error}") from error
    return entries


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise InputError("a name occurs twice in the header")
    return names


def _entry(name: str, value: Any, data: int) -> Entry:
    """A checked entry of a header whose tensors begin at byte `data`."""
    if not isinstance(value, dict):
        raise InputError(f"{name} is described by a {type(value).__name__}, not by an object")
    dtype: Any = value.get("dtype")
    shape: Any = value.get("shape")
    offsets: Any = value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise InputError(f"{name} is of type {dtype!r}, none of {', '.join(_DTYPES)}")
    if not _are_counts(shape) or not _are_counts(offsets) or len(offsets) != 2:
        raise InputError(f"{name} has no possible shape and offsets")
    start, end = offsets
    kind = np.dtype(_DTYPES[dtype])
    if end - start != math.prod(shape) * kind.itemsize:
        raise InputError(f"{name} of type {dtype} and shape {shape} takes {end - start} bytes")
    return Entry(kind, tuple(shape), data + start, data + end)


def _are_counts(values: Any) -> bool:
    if not isinstance(values, list) or len(values) > _MAX_RANK:
        return False
    return all(type(value) is int and 0 <= value < 1 << 63 for value in values)


def read_tensor(path: Path, entry: Entry) -> np.ndarray:
    """The values of a tensor; ValueError where the file ends before it."""
    count = math.prod(entry.shape)
    values = np.fromfile(path, entry.dtype, count, offset=entry.start)
    if values.size != count:
        raise InputError(f"{path} is cut off: it ends before byte {entry.end}")
    return values.reshape(entry.shape)


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
    found: dict[str, tuple[Path, Entry]] = {}
    if path.suffix != ".json":
        found = {name: (path, entry) for name, entry in read_header(path).items()}
    else:
        weight_map = read_json(path).get("weight_map")
        if not isinstance(weight_map, dict) or not all(map(_is_file_name, weight_map.values())):
            raise InputError(f"{path} holds no weight_map of tensors to the names of files beside it")
        for part in sorted(set(weight_map.values())):
            entries = read_header(path.with_name(part))
            for name in sorted(entries.keys() ^ {n for n, file in weight_map.items() if file == part}):
                raise InputError(f"{path}: {name} is not both there and in {part}")
            found |= {name: (path.with_name(part), entry) for name, entry in entries.items()}
    return Tensors(
        str(path),
        {name: entry.shape for name, (_, entry) in found.items()},
        {name: entry.dtype.name for name, (_, entry) in found.items()},
        lambda name: read_tensor(*found[name]),
    )


def _is_file_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\w-][\w.-]*\.safetensors", value) is not None


def write_safetensors(
    path: Path, shapes: Mapping[str, tuple[int, ...]], read: Callable[[str], np.ndarray]
) -> None:
    """Writes float32 tensors.

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
