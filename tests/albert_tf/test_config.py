"""AlbertConfig: every published file is read or refused for its reason, every wrong value is named."""

import dataclasses
import json
import re

import pytest

from albert_tf import PRESETS, AlbertConfig
from albert_tf.utils.errors import InputError

# Hand-written: file, and the fields in which its network differs from the base model without dropout.
DROPOUT = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
XLARGE = {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 8192}
XXLARGE = {"hidden_size": 4096, "num_attention_heads": 64, "intermediate_size": 16384}
TINY_ZH = {"hidden_size": 312, "num_hidden_layers": 4, "intermediate_size": 1248, "vocab_size": 21128}
PUBLISHED = {
    "agemagician.albert-xxlarge-v2-config.vocab34.json": {**XXLARGE, "vocab_size": 34},
    "albert_base.comp4901k.json": DROPOUT,
    "albert_large.comp4901k.json": {**LARGE, **DROPOUT},
    "brightmart_zh.albert_config_tiny_google.json": TINY_ZH,
    "m-aamirmasood.albert_config.json": DROPOUT,
    "pohanchi.albert_config.json": {},
    "pohanchi.albert_config2.json": {},
    "pohanchi.albert_config_l2.json": {**LARGE, **DROPOUT},
    "pohanchi.albert_config_large.json": LARGE,
    "pohanchi.albert_config_xl2.json": XLARGE,
    "pohanchi.albert_config_xlarge.json": {**XLARGE, **DROPOUT},
}
REFUSED = {"brightmart_zh.albert_config_xxlarge.json": "ln_type='preln' describes another network"}

WITH_CHECKPOINTS = {
    "en_albert_base/albert_config.json": DROPOUT,
    "en_albert_large/albert_config.json": {**LARGE, **DROPOUT},
    "zh_albert_base/albert_config.json": {"hidden_act": "relu", "vocab_size": 21128},
    "zh_albert_tiny_brightmart/albert_config_tiny.json": TINY_ZH,
}

SMALL = {
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "vocab_size": 120,
}
RECORDED = {
    "tf1/shared/albert_config.json": SMALL,
    "tf1/groups/albert_config.json": {**SMALL, "num_hidden_layers": 6, "num_hidden_groups": 3},
    "tf1/inner/albert_config.json": {**SMALL, "num_hidden_groups": 2, "inner_group_num": 2},
    "tf1/unshared/albert_config.json": {
        **SMALL,
        "embedding_size": 32,
        "num_hidden_layers": 3,
        "num_hidden_groups": 3,
        "num_attention_heads": 2,
        "intermediate_size": 128,
        "max_position_embeddings": 48,
        "vocab_size": 96,
    },
    "hf/pretraining/config.json": {**SMALL, "project_embeddings": True},
    "hf/groups/config.json": {
        **SMALL,
        "num_hidden_layers": 6,
        "num_hidden_groups": 2,
        "inner_group_num": 2,
        "project_embeddings": True,
    },
    "hf/question_answering/config.json": {**SMALL, "project_embeddings": True},
    "hf/sequence_classification/config.json": {**SMALL, "project_embeddings": True},
}

BASE_MODEL = {
    "vocab_size": 30000,
    "embedding_size": 128,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_hidden_groups": 1,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "inner_group_num": 1,
    "sharing": "all",
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "classifier_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "project_embeddings": None,
}


def test_defaults_are_the_base_model():
    assert AlbertConfig().to_dict() == BASE_MODEL


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_files(shared, name):
    read = AlbertConfig.from_json_file(shared / "data/vocabulary/configs" / name)
    assert read.to_dict() == {**BASE_MODEL, **PUBLISHED[name]}


@pytest.mark.parametrize("name", REFUSED)
def test_published_files_of_another_network(shared, name):
    path = shared / "data/vocabulary/configs" / name
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: {re.escape(REFUSED[name])}"):
        AlbertConfig.from_json_file(path)


def test_no_published_file_is_left_out(shared):
    names = {path.name for path in (shared / "data/vocabulary/configs").iterdir()}
    assert names == set(PUBLISHED) | set(REFUSED)


@pytest.mark.parametrize("name", WITH_CHECKPOINTS)
def test_files_of_published_checkpoints(shared, name):
    read = AlbertConfig.from_json_file(shared / "golden/tf1_index" / name)
    assert read.to_dict() == {**BASE_MODEL, **WITH_CHECKPOINTS[name]}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_files(golden, name):
    assert AlbertConfig.from_json_file(golden / name).to_dict() == {**BASE_MODEL, **RECORDED[name]}


BERT = {**DROPOUT, "sharing": "none"}


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "albert_base_v1": DROPOUT,
        "albert_large_v1": {**LARGE, **DROPOUT},
        "albert_xlarge_v1": {**XLARGE, **DROPOUT},
        "albert_xxlarge_v1": XXLARGE,
        "albert_base_v2": {},
        "albert_large_v2": LARGE,
        "albert_xlarge_v2": XLARGE,
        "albert_xxlarge_v2": XXLARGE,
        "bert_base": {**BERT, "embedding_size": 768},
        "bert_large": {**LARGE, **BERT, "embedding_size": 1024},
    }.items(),
)
def test_presets(name, expected):
    assert PRESETS[name].to_dict() == {**BASE_MODEL, **expected}


def test_there_are_no_other_presets():
    sizes = [
        f"albert_{size}_{version}"
        for version in ("v1", "v2")
        for size in ("base", "large", "xlarge", "xxlarge")
    ]
    assert set(PRESETS) == {*sizes, "bert_base", "bert_large"}


def test_immutable_equal_and_hashable():
    config = AlbertConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_size = 24
    assert config == AlbertConfig() and hash(config) == hash(AlbertConfig())
    assert config != config.replace(hidden_size=24)
    with pytest.raises(TypeError):
        AlbertConfig(30000)  # every field is given by its name


def test_replace_leaves_the_original_and_checks():
    config = AlbertConfig()
    assert config.replace(num_hidden_groups=2).to_dict() == {**BASE_MODEL, "num_hidden_groups": 2}
    assert config.to_dict() == BASE_MODEL
    with pytest.raises(InputError, match=r"hidden_size=770.*num_attention_heads=12"):
        config.replace(hidden_size=770)
    with pytest.raises(ValueError, match="'hidden_sizes'"):
        config.replace(hidden_sizes=770)


@pytest.mark.parametrize(
    "config",
    [
        *PRESETS.values(),
        AlbertConfig(project_embeddings=True, hidden_act="gelu_erf", layer_norm_eps=1e-5),
        AlbertConfig(sharing="ffn", initializer_range=0.1, classifier_dropout_prob=0, type_vocab_size=4),
    ],
)
def test_round_trips(config, tmp_path):
    assert AlbertConfig.from_dict(config.to_dict()) == config
    assert AlbertConfig.from_dict(json.loads(config.to_json_string())) == config
    path = tmp_path / "config.json"
    path.write_text(config.to_json_string())
    assert AlbertConfig.from_json_file(path) == AlbertConfig.from_json_file(str(path)) == config


@pytest.mark.parametrize(
    ("embedding_size", "hidden_size", "project_embeddings", "expected"),
    [
        (12, 24, None, True),
        (24, 24, None, False),
        (24, 24, True, True),
        (24, 24, False, False),
        (12, 24, True, True),
    ],
)
def test_has_projection(embedding_size, hidden_size, project_embeddings, expected):
    config = AlbertConfig(
        embedding_size=embedding_size, hidden_size=hidden_size, project_embeddings=project_embeddings
    )
    assert config.has_projection is expected


SIZES = [name for name, value in BASE_MODEL.items() if type(value) is int]
PROBABILITIES = [name for name in BASE_MODEL if name.endswith("_prob")]
NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    "changes",
    [
        *({name: value} for name in SIZES for value in (0, -12, 12.0, True, "12", None)),
        *({name: value} for name in PROBABILITIES for value in (-0.1, 1, 1.5, NAN, INFINITY, False)),
        *(
            {name: value}
            for name in ("initializer_range", "layer_norm_eps")
            for value in (0, -0.1, NAN, INFINITY, "0.02", None)
        ),
        {"hidden_act": "swish"},
        {"hidden_act": None},
        {"sharing": "All"},
        {"sharing": ["all"]},
        {"project_embeddings": 1},
        {"project_embeddings": False},
        {"hidden_size": 770},
        {"num_hidden_layers": 100_000},
        {"num_hidden_layers": 101, "inner_group_num": 100},
        {"num_hidden_groups": 4, "num_hidden_layers": 3},
        {"sharing": "attention", "num_hidden_groups": 2},
        {"sharing": "ffn", "num_hidden_groups": 2},
    ],
    ids=str,
)
def test_wrong_values_are_named(changes):
    name, value = next(iter(changes.items()))
    for make in (lambda: AlbertConfig(**changes), lambda: AlbertConfig.from_dict(changes)):
        with pytest.raises(InputError) as caught:
            make()
        assert re.match(f"{name}=['\"]?{re.escape(str(value))}", str(caught.value))


def test_groups_are_of_no_matter_where_nothing_is_shared():
    assert AlbertConfig(sharing="none", num_hidden_groups=2).num_hidden_groups == 2


def test_unknown_keys_are_named_together():
    with pytest.raises(InputError, match="'hiden_size', 'n_layers'"):
        AlbertConfig.from_dict({"n_layers": 2, "hidden_size": 24, "hiden_size": 24})


HISTORICAL = [
    ("down_scale_factor", 1, 2),
    ("net_structure_type", 0, 1),
    ("gap_size", 0, 3),
    ("num_memory_blocks", 0, 1),
    ("layers_to_keep", [], [1, 2]),
    ("ln_type", "postln", "preln"),
    ("directionality", "bidi", "left_to_right"),
    ("pooler_type", "first_token_transform", "mean"),
]


@pytest.mark.parametrize(("key", "neutral", "other"), HISTORICAL)
def test_historical_keys(key, neutral, other):
    assert AlbertConfig.from_dict({key: neutral}) == AlbertConfig()
    with pytest.raises(InputError, match=re.escape(f"{key}={other!r}")):
        AlbertConfig.from_dict({key: other})


def test_all_wrong_historical_keys_are_named():
    with pytest.raises(ValueError, match=r"^gap_size=1 .*; ln_type='preln' "):
        AlbertConfig.from_dict({"gap_size": 1, "ln_type": "preln", "layers_to_keep": []})


def test_keys_that_no_albert_read():
    unread = {"pooler_fc_size": 768, "pooler_size_per_head": 64, "num_labels": 2}
    assert AlbertConfig.from_dict(unread) == AlbertConfig()


@pytest.mark.parametrize("values", [None, "albert", [1, 2], 3])
def test_a_config_is_an_object(values):
    with pytest.raises(ValueError, match=type(values).__name__):
        AlbertConfig.from_dict(values)


@pytest.mark.parametrize(
    "content",
    [b"", b"not json", b"[1, 2]", b'{"hidden_size": 770}', b'{"layer_norm_eps": NaN}', b"\xff\xfe\0"],
)
def test_a_wrong_file_is_named(content, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: "):
        AlbertConfig.from_json_file(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape("no.json")):
        AlbertConfig.from_json_file(tmp_path / "no.json")


HUGGING_FACE = {"model_type": "albert", "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu_new", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("gelu", "gelu_erf"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_hugging_face_activations(theirs, ours):
    assert AlbertConfig.from_dict({**HUGGING_FACE, "hidden_act": theirs}).hidden_act == ours


def test_hugging_face_defaults_and_unrelated_keys():
    config = AlbertConfig.from_dict({"model_type": "albert", "bos_token_id": 2, "down_scale_factor": 3})
    assert config.to_dict() == {**BASE_MODEL, **XXLARGE, "project_embeddings": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "bert"},
        {"model_type": None},
        {"position_embedding_type": "relative_key"},
        {"tie_word_embeddings": False},
        {"hidden_act": "silu"},
        {"hidden_act": ["gelu"]},
        {"hidden_size": 33},
    ],
    ids=str,
)
def test_hugging_face_files_of_another_network(changes):
    ((name, value),) = changes.items()
    with pytest.raises(InputError, match=f"^{re.escape(f'{name}={value!r}')}"):
        AlbertConfig.from_dict({**HUGGING_FACE, **changes})
