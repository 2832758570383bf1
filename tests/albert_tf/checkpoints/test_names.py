"""The table of names and shapes against models of ours and against real checkpoints."""

import math

import pytest

import albert_tf
from albert_tf.checkpoints.names import variable_names
from albert_tf.conversion.safetensors import open_safetensors
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
# Sizes of the encoders (Lan et al. 2020, Table 1, counted exactly).
PARAMETERS = {
    "albert_base": 11_683_584,
    "albert_large": 17_683_968,
    "albert_xlarge": 58_724_864,
    "albert_xxlarge": 222_595_584,
    "bert_base": 109_081_344,
    "bert_large": 334_607_360,
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
    size = preset.removesuffix("_v1").removesuffix("_v2")
    assert sum(math.prod(name.shape) for name in names) == PARAMETERS[size]
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


@pytest.mark.parametrize(
    ("case", "task"),
    [
        ("pretraining", {"model": "pretrainer", "sentence_objective": "sop"}),
        ("groups", {"model": "pretrainer", "sentence_objective": "sop"}),
        ("sequence_classification", {"model": "classifier", "num_labels": 3}),
        ("question_answering", {"model": "span_labeler"}),
    ],
)
def test_hugging_face_names_and_shapes(golden, case, task):
    folder = golden / "hf" / case
    config = albert_tf.AlbertConfig.from_json_file(folder / "config.json")
    ours = dict(name.hugging_face[:2] for name in variable_names(config, task))
    if case == "question_answering":
        ours = {name: shape for name, shape in ours.items() if "pooler" not in name}
    assert ours == open_safetensors(folder / "model.safetensors").shapes
