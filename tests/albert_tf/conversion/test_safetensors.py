"""The safetensors format against files laid out by hand, damaged ones above all."""

import json
import re

import numpy as np
import pytest

from albert_tf.conversion.huggingface import open_safetensors
from albert_tf.errors import InputError

SCALE = np.array([1.5, -2.0], np.float32)
TABLE = np.arange(6, dtype=np.float32).reshape(2, 3)
ENTRIES = {
    "scale": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
    "table": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]},
}
DATA = SCALE.tobytes() + TABLE.tobytes()


def layout(header, data=DATA):
    """A file's bytes, by the format's description."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def check(tensors):
    assert tensors.shapes == {"scale": (2,), "table": (2, 3)}
    assert tensors.dtypes == {"scale": "float32", "table": "float32"}
    np.testing.assert_array_equal(tensors.read("table"), TABLE)
    np.testing.assert_array_equal(tensors.read("scale"), SCALE)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [("BF16", b"\xc0\x3f\x00\xc0"), ("F16", b"\x00\x3e\x00\xc0"), ("F64", np.float64([1.5, -2]).tobytes())],
)
def test_other_floats(tmp_path, dtype, data):
    path = tmp_path / "model.safetensors"
    path.write_bytes(layout({"scale": {"dtype": dtype, "shape": [2], "data_offsets": [0, len(data)]}}, data))
    tensors = open_safetensors(path)
    np.testing.assert_array_equal(tensors.read("scale").astype(np.float32), SCALE)


def shards(folder, weight_map):
    one, two = {"scale": ENTRIES["scale"]}, {"table": {**ENTRIES["table"], "data_offsets": [0, 24]}}
    (folder / "model-1.safetensors").write_bytes(layout(one, SCALE.tobytes()))
    (folder / "model-2.safetensors").write_bytes(layout(two, TABLE.tobytes()))
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": weight_map}))
    return path


@pytest.mark.parametrize(
    "part", ["../model-1.safetensors", "/etc/passwd", "sub/model-1.safetensors", "..", ""]
)
def test_an_index_opens_files_of_its_folder_alone(tmp_path, part):
    (tmp_path / "sub").mkdir()
    shards(tmp_path, {})
    with pytest.raises(InputError, match=re.escape(repr(part))):
        open_safetensors(shards(tmp_path / "sub", {"scale": part}))


def test_several_files_with_an_index(tmp_path):
    index = shards(tmp_path, {"scale": "model-1.safetensors", "table": "model-2.safetensors"})
    tensors = open_safetensors(index)
    check(tensors)
    second = tmp_path / "model-2.safetensors"
    second.write_bytes(second.read_bytes()[:-1])  # cut off after it was opened, and before
    for read in (lambda: tensors.read("table"), lambda: open_safetensors(index)):
        with pytest.raises(InputError, match=r"model-2\.safetensors is not a safetensors file, or damaged"):
            read()
    with pytest.raises(InputError, match="holds no weight_map"):
        open_safetensors(shards(tmp_path, {"scale": 3}))
    with pytest.raises(FileNotFoundError, match="model-3"):
        open_safetensors(shards(tmp_path, {"scale": "model-3.safetensors"}))
