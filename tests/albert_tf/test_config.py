"""AlbertConfig: every published file is read or refused for its reason, every wrong value is named."""

import dataclasses
import re

import pytest

from albert_tf import PRESETS, AlbertConfig
from albert_tf.errors import InputError

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
    "position_offset": 0,
    "pooler": "tanh",
}


def test_defaults_are_the_base_model():
    assert AlbertConfig().to_dict() == BASE_MODEL


def test_published_files(shared):
    folder = shared / "data/vocabulary/configs"
    assert {path.name for path in folder.iterdir()} == set(PUBLISHED) | set(REFUSED)
    for place, files in ((folder, PUBLISHED), (shared / "golden/tf1_index", WITH_CHECKPOINTS)):
        for name, changes in files.items():
            read = AlbertConfig.from_json_file(place / name)
            assert read.to_dict() == {**BASE_MODEL, **changes}, name
    for name, reason in REFUSED.items():
        with pytest.raises(InputError, match=f"{re.escape(name)}: {re.escape(reason)}"):
            AlbertConfig.from_json_file(folder / name)


BERT = {**DROPOUT, "sharing": "none", "embedding_size": 768}
BERT_LARGE = {**LARGE, **BERT, "embedding_size": 1024}
UNCASED = {"vocab_size": 30522, "hidden_act": "gelu_erf"}
CASED = {"vocab_size": 28996, "hidden_act": "gelu_erf"}
# transformers' config of roberta-base, whose max_position_embeddings=514 includes the position offset.
ROBERTA = {
    "vocab_size": 50265,
    "hidden_act": "gelu_erf",
    "type_vocab_size": 1,
    "layer_norm_eps": 1e-5,
    "position_offset": 2,
    "pooler": "none",
}
DISTILBERT = {**BERT, "num_hidden_layers": 6, "type_vocab_size": 0, "pooler": "none"}


def test_presets():
    assert {name: config.to_dict() for name, config in PRESETS.items()} == {
        name: {**BASE_MODEL, **changes}
        for name, changes in {
            "albert_base_v1": DROPOUT,
            "albert_large_v1": {**LARGE, **DROPOUT},
            "albert_xlarge_v1": {**XLARGE, **DROPOUT},
            "albert_xxlarge_v1": XXLARGE,
            "albert_base_v2": {},
            "albert_large_v2": LARGE,
            "albert_xlarge_v2": XLARGE,
            "albert_xxlarge_v2": XXLARGE,
            "bert_base": BERT,
            "bert_large": BERT_LARGE,
            "bert_base_uncased": {**BERT, **UNCASED},
            "bert_base_cased": {**BERT, **CASED},
            "bert_large_uncased": {**BERT_LARGE, **UNCASED},
            "bert_large_cased": {**BERT_LARGE, **CASED},
            "roberta_base": {**BERT, **ROBERTA},
            "roberta_large": {**BERT_LARGE, **ROBERTA},
            "distilbert_base_uncased": {**DISTILBERT, **UNCASED},
            "distilbert_base_cased": {**DISTILBERT, **CASED},
        }.items()
    }


def test_replace_leaves_the_original_and_checks():
    config = AlbertConfig()
    assert config.replace(num_hidden_groups=2).to_dict() == {**BASE_MODEL, "num_hidden_groups": 2}
    assert config.to_dict() == BASE_MODEL
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.hidden_size = 24
    assert hash(config) == hash(AlbertConfig())
    with pytest.raises(InputError, match=r"hidden_size=770.*num_attention_heads=12"):
        config.replace(hidden_size=770)
    with pytest.raises(ValueError, match="'hidden_sizes'"):
        config.replace(hidden_sizes=770)


def test_round_trips(tmp_path):
    path = tmp_path / "config.json"
    for config in (
        PRESETS["albert_large_v1"],
        AlbertConfig(project_embeddings=True, hidden_act="gelu_erf", layer_norm_eps=1e-5),
        AlbertConfig(sharing="ffn", initializer_range=0.1, classifier_dropout_prob=0, type_vocab_size=4),
    ):
        assert AlbertConfig.from_dict(config.to_dict()) == config
        path.write_text(config.to_json_string())
        assert AlbertConfig.from_json_file(path) == AlbertConfig.from_json_file(str(path)) == config


def test_has_projection():
    for embedding_size, asked, expected in (
        (12, None, True), (24, None, False), (24, True, True), (24, False, False), (12, True, True)
    ):  # fmt: skip
        config = AlbertConfig(embedding_size=embedding_size, hidden_size=24, project_embeddings=asked)
        assert config.has_projection is expected


OPTIONAL = ("type_vocab_size", "position_offset")  # counts that may be 0
SIZES = [name for name, value in BASE_MODEL.items() if type(value) is int and name not in OPTIONAL]
PROBABILITIES = [name for name in BASE_MODEL if name.endswith("_prob")]
NAN, INFINITY = float("nan"), float("inf")
WRONG = [
    *({name: 0} for name in SIZES),
    *({name: -1} for name in OPTIONAL),
    {"pooler": "gelu"},
    *({"hidden_size": value} for value in (-12, 12.0, True, "12", None, 770)),
    *({name: 1} for name in PROBABILITIES),
    *({"hidden_dropout_prob": value} for value in (-0.1, NAN, False)),
    *(
        {name: value}
        for name in ("initializer_range", "layer_norm_eps")
        for value in (0, 1e300, NAN, INFINITY, None)
    ),
    {"hidden_act": "swish"},
    {"hidden_act": None},
    {"sharing": "All"},
    {"sharing": ["all"]},
    {"project_embeddings": 1},
    {"project_embeddings": False},
    {"num_hidden_layers": 100_000},
    {"num_hidden_layers": 101, "inner_group_num": 100},
    {"num_hidden_groups": 4, "num_hidden_layers": 3},
    {"sharing": "attention", "num_hidden_groups": 2},
    {"sharing": "ffn", "num_hidden_groups": 2},
]


@pytest.mark.parametrize("changes", WRONG, ids=str)
def test_wrong_values_are_named(changes):
    name, value = next(iter(changes.items()))
    for make in (lambda: AlbertConfig(**changes), lambda: AlbertConfig.from_dict(changes)):
        with pytest.raises(InputError) as caught:
            make()
        assert re.match(f"{name}=['\"]?{re.escape(str(value))}", str(caught.value))


def test_groups_are_of_no_matter_where_nothing_is_shared():
    assert AlbertConfig(sharing="none", num_hidden_groups=2).num_hidden_groups == 2


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


def test_historical_and_unknown_keys():
    for key, neutral, other in HISTORICAL:
        assert AlbertConfig.from_dict({key: neutral}) == AlbertConfig()
        with pytest.raises(InputError, match=re.escape(f"{key}={other!r}")):
            AlbertConfig.from_dict({key: other})
    with pytest.raises(InputError, match=r"^gap_size=1 "):
        AlbertConfig.from_dict({"gap_size": 1, "ln_type": "preln", "layers_to_keep": []})
    with pytest.raises(InputError, match="'hiden_size', 'n_layers'"):
        AlbertConfig.from_dict({"n_layers": 2, "hidden_size": 24, "hiden_size": 24})
    unread = {"pooler_fc_size": 768, "pooler_size_per_head": 64, "num_labels": 2}
    assert AlbertConfig.from_dict(unread) == AlbertConfig()


@pytest.mark.parametrize("content", [b"not json", b"[1, 2]", b'{"hidden_size": 770}', b"\xff\xfe\0"])
def test_a_wrong_file_is_named(content, tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{re.escape(str(path))}: "):
        AlbertConfig.from_json_file(path)
    with pytest.raises(FileNotFoundError, match=r"no\.json"):
        AlbertConfig.from_json_file(tmp_path / "no.json")


def test_the_family_in_hugging_face_files():
    for values, expected in (
        ({"model_type": "bert"}, {**BERT, **UNCASED}),
        (
            {"model_type": "bert", "classifier_dropout": 0.3},
            {**BERT, **UNCASED, "classifier_dropout_prob": 0.3},
        ),
        (
            {
                "model_type": "roberta",
                "max_position_embeddings": 514,
                "type_vocab_size": 1,
                "layer_norm_eps": 1e-5,
            },
            {**BERT, **ROBERTA},
        ),
        (
            {"model_type": "distilbert", "dim": 24, "n_heads": 2, "hidden_dim": 48, "activation": "relu"},
            {
                **{**DISTILBERT, "vocab_size": 30522, "embedding_size": 24, "hidden_size": 24},
                **{"num_attention_heads": 2, "intermediate_size": 48, "hidden_act": "relu"},
                "classifier_dropout_prob": 0.2,
            },
        ),
    ):
        assert AlbertConfig.from_dict(values).to_dict() == {**BASE_MODEL, **expected}


def test_google_berts_file_is_told_by_its_name(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(
        '{"hidden_size": 24, "num_attention_heads": 2, "vocab_size": 90, "directionality": "bidi"}'
    )
    found = AlbertConfig.from_json_file(path)
    assert (found.embedding_size, found.sharing, found.family) == (24, "none", "bert")
    path.write_text('{"vocab_size": 90}')
    with pytest.raises(InputError, match=r"bert_config.json: hidden_size"):
        AlbertConfig.from_json_file(path)


def test_families_and_their_poolers():
    families = {name: name.partition("_")[0] for name in PRESETS}
    assert {name: config.family for name, config in PRESETS.items()} == families
    assert AlbertConfig(sharing="none").family == "albert"  # which projects its embeddings
    assert PRESETS["roberta_base"].with_pooler().pooler == "tanh"
    assert PRESETS["distilbert_base_cased"].with_pooler().pooler == "relu"
    assert AlbertConfig().with_pooler() == AlbertConfig()


HUGGING_FACE = {"model_type": "albert", "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}


def test_hugging_face_activations():
    ours = {
        "gelu_new": "gelu",
        "gelu_pytorch_tanh": "gelu",
        "gelu": "gelu_erf",
        "relu": "relu",
        "tanh": "tanh",
    }
    for name, expected in ours.items():
        assert AlbertConfig.from_dict({**HUGGING_FACE, "hidden_act": name}).hidden_act == expected


def test_hugging_face_defaults_and_unrelated_keys():
    config = AlbertConfig.from_dict({"model_type": "albert", "bos_token_id": 2, "down_scale_factor": 3})
    assert config.to_dict() == {**BASE_MODEL, **XXLARGE, "project_embeddings": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "electra"},
        {"is_decoder": True},
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
