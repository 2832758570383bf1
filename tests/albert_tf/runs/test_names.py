"""The table of names and shapes against models of ours and against real checkpoints."""

import math

import pytest

import albert_tf
from albert_tf.runs.variable_names import variable_names
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


def shapes(model):
    return {variable.name.removesuffix(":0"): tuple(variable.shape) for variable in model.variables}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_every_variable_of_the_encoder_once(config):
    names = variable_names(config, {"model": "encoder"})
    assert {name.ours: name.shape for name in names} == shapes(albert_tf.AlbertEncoder(config))
    for form in ("google", "hugging_face"):
        assert len({getattr(name, form).name for name in names}) == len(names)


@pytest.mark.parametrize("preset", albert_tf.PRESETS)
def test_presets(preset):
    """The true sizes, without the memory they take."""
    config = albert_tf.PRESETS[preset]
    names = variable_names(config, {"model": "encoder"})
    assert sum(math.prod(name.shape) for name in names) == albert_tf.parameter_count(config)["total"]
    for name in names:
        assert math.prod(name.hub.shape) == math.prod(name.hugging_face.shape) == math.prod(name.shape)


@pytest.mark.parametrize("release", ["en_albert_base", "en_albert_large", "zh_albert_base"])
def test_published_checkpoints(shared, release):
    """Names and shapes of real releases are those of the table."""
    folder = shared / "golden" / "tf1_index" / release
    lines = (folder / "variables.txt").read_text().splitlines()[1:]
    published = dict(line.split(" ", 1) for line in lines)
    config = albert_tf.AlbertConfig.from_json_file(folder / "albert_config.json")
    names = variable_names(config, {"model": "pretrainer", "sentence_objective": "sop"})
    ours = {name.google.name: str(list(name.google.shape)) for name in names}
    assert ours == {name: shape for name, shape in published.items() if name != "global_step"}
