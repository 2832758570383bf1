import json
import re
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints import task_of
from albert_tf.checkpoints.names import variable_names
from tests.tiny import TINY

CONFIGS = {
    "all": TINY,
    "groups": TINY.replace(num_hidden_groups=3, inner_group_num=2),
    "attention": TINY.replace(sharing="attention"),
    "ffn": TINY.replace(sharing="ffn"),
    "none": TINY.replace(sharing="none"),
    "no projection": TINY.replace(embedding_size=32),
    "projection all the same": TINY.replace(embedding_size=32, project_embeddings=True),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_variable_of_the_encoder_once(config):
    model = albert_tf.AlbertEncoder(config)
    names = variable_names(config, task_of(model))
    assert sorted(name.ours + ":0" for name in names) == sorted(v.name for v in model.variables)
    for column in ("google", "hugging_face"):
        theirs = [getattr(name, column) for name in names]
        assert len(set(theirs)) == len(theirs)


@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
def test_every_variable_of_the_heads_once(objective):
    model = albert_tf.AlbertPretrainer(TINY, sentence_objective=objective)
    names = variable_names(TINY, task_of(model))
    assert sorted(name.ours + ":0" for name in names) == sorted(v.name for v in model.variables)


@pytest.mark.parametrize("release", ["en_albert_base", "en_albert_large", "zh_albert_base"])
def test_published_checkpoints(shared, release):
    """Names and shapes of real releases are those of the models that their configs make."""
    folder: Path = shared / "golden" / "tf1_index" / release
    lines = (folder / "variables.txt").read_text().splitlines()[1:]
    published = dict(line.split(" ", 1) for line in lines)
    config = albert_tf.AlbertConfig.from_json_file(folder / "albert_config.json")
    model = albert_tf.AlbertPretrainer(config)
    google = {name.ours: name.google for name in variable_names(config, task_of(model))}
    ours = {google[v.name.removesuffix(":0")]: str(v.shape.as_list()) for v in model.variables}
    assert ours == {name: shape for name, shape in published.items() if name != "global_step"}


@pytest.mark.parametrize("case", ["pretraining", "groups"])
def test_hugging_face_names_and_shapes(golden, case):
    folder = golden / "hf" / case
    content = (folder / "model.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    theirs = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    config = albert_tf.AlbertConfig.from_json_file(folder / "config.json")
    model = albert_tf.AlbertPretrainer(config)
    shapes = {v.name.removesuffix(":0"): np.empty(v.shape) for v in model.variables}
    names = variable_names(config, task_of(model))
    assert {n.hugging_face: list(n.to_hugging_face(shapes[n.ours]).shape) for n in names} == theirs


def test_names_contain_googles_block_scope():
    blocks = {
        re.match(r"encoder/transformer/(group_\d+/inner_group_\d+)/", name.ours)[1]
        for name in variable_names(CONFIGS["groups"], {"model": "encoder"})
        if name.ours.startswith("encoder/transformer")
    }
    assert blocks == {f"group_{group}/inner_group_{inner}" for group in range(3) for inner in range(2)}
