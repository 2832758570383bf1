"""Parameter counts against the published figures and against the variables of built models."""

import pytest
import tensorflow as tf

from albert_tf import PRESETS, AlbertEncoder, parameter_count

BASE = PRESETS["albert_base_v2"]
LARGE = PRESETS["albert_large_v2"]

PRESET_TOTALS = {
    **dict.fromkeys(("albert_base_v1", "albert_base_v2"), 11_683_584),
    **dict.fromkeys(("albert_large_v1", "albert_large_v2"), 17_683_968),
    **dict.fromkeys(("albert_xlarge_v1", "albert_xlarge_v2"), 58_724_864),
    **dict.fromkeys(("albert_xxlarge_v1", "albert_xxlarge_v2"), 222_595_584),
    "bert_base": 109_081_344,
    "bert_large": 334_607_360,
    # transformers' models; RoBERTa's without the pooler that its language model does not have.
    "bert_base_uncased": 109_482_240,
    "bert_base_cased": 108_310_272,
    "bert_large_uncased": 335_141_888,
    "bert_large_cased": 333_579_264,
    "roberta_base": 124_645_632 - 590_592,
    "roberta_large": 355_359_744 - 1_049_600,
    "distilbert_base_uncased": 66_362_880,
    "distilbert_base_cased": 65_190_912,
}
SHARING_TOTALS = {  # sharing: totals at E = 64, 128, 256, 768
    "all": (9_681_408, 11_683_584, 15_687_936, 31_114_752),
    "attention": (61_645_056, 63_647_232, 67_651_584, 83_078_400),
    "ffn": (35_684_352, 37_686_528, 41_690_880, 57_117_696),
    "none": (87_648_000, 89_650_176, 93_654_528, 109_081_344),
}
GROUP_TOTALS = {1: 11_683_584, 2: 18_771_456, 3: 25_859_328, 4: 32_947_200, 6: 47_122_944, 12: 89_650_176}
WIDTH_TOTALS = {1024: 17_683_968, 2048: 58_724_864, 4096: 222_595_584, 6144: 495_518_208}

CONFIGS = [
    *((PRESETS[name], total) for name, total in PRESET_TOTALS.items()),
    *(
        (BASE.replace(sharing=sharing, embedding_size=width), total)
        for sharing, totals in SHARING_TOTALS.items()
        for width, total in zip((64, 128, 256, 768), totals, strict=True)
    ),
    *((BASE.replace(num_hidden_groups=groups), total) for groups, total in GROUP_TOTALS.items()),
    *((LARGE.replace(num_hidden_layers=layers), 17_683_968) for layers in (1, 3, 6, 12, 24, 48)),
    *(
        (
            LARGE.replace(
                hidden_size=width,
                num_hidden_layers=3,
                num_attention_heads=width // 64,
                intermediate_size=4 * width,
            ),
            total,
        )
        for width, total in WIDTH_TOTALS.items()
    ),
]


def test_published_figures():
    assert set(PRESET_TOTALS) == set(PRESETS)
    for config, total in CONFIGS:
        assert parameter_count(config)["total"] == total, config


@pytest.mark.parametrize(
    "config",
    [
        BASE,
        PRESETS["bert_base"],
        BASE.replace(num_hidden_groups=2, inner_group_num=3),
        BASE.replace(sharing="attention", inner_group_num=2),
        BASE.replace(sharing="ffn", inner_group_num=2),
        BASE.replace(embedding_size=768, project_embeddings=True),
        BASE.replace(vocab_size=11, type_vocab_size=1, max_position_embeddings=7),
        PRESETS["roberta_base"],
        PRESETS["distilbert_base_cased"],
    ],
    ids=["base", "bert", "groups", "attention", "ffn", "projection", "tables", "roberta", "distilbert"],
)
def test_parts_are_those_of_the_variables(config):
    parts = {"embeddings": 0, "encoder": 0, "pooler": 0}
    with tf.Graph().as_default():  # where variables are declared and hold no memory
        for variable in AlbertEncoder(config).variables:
            parts[variable.name.partition("/")[0]] += variable.shape.num_elements()
    assert parameter_count(config) == {**parts, "total": sum(parts.values())}
