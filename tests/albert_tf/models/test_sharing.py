"""The sharing plan against tables made by hand."""

import pytest

from albert_tf import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.models.sharing import sharing_plan, with_num_layers


def plan(**changes) -> list[tuple[int, int, int, int]]:
    """(attention's group, its inner group, feed-forward's group, its inner group) of each pair."""
    return [(*pair.attention, *pair.feed_forward) for pair in sharing_plan(AlbertConfig(**changes))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sharing": "all"}, [(0, 0, 0, 0)] * 3),
        ({"sharing": "attention"}, [(0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 2, 0)]),
        ({"sharing": "ffn"}, [(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0)]),
        ({"sharing": "none", "num_hidden_groups": 2}, [(0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 2, 0)]),
        ({"num_hidden_groups": 3}, [(0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 2, 0)]),
        (
            {"inner_group_num": 2, "num_hidden_groups": 2},
            [(0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 0, 0), (0, 1, 0, 1), (1, 0, 1, 0), (1, 1, 1, 1)],
        ),
        (
            {"inner_group_num": 2, "sharing": "attention"},
            [(0, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 0), (0, 1, 1, 1), (0, 0, 2, 0), (0, 1, 2, 1)],
        ),
    ],
)
def test_three_layers(changes, expected):
    assert plan(num_hidden_layers=3, **changes) == expected


def test_groups_are_those_of_whole_numbers_where_floats_are_truncated():
    assert [pair[0] for pair in plan(num_hidden_layers=44, num_hidden_groups=22)] == [
        layer // 2 for layer in range(44)
    ]
    assert int(30 / 44 * 22) == 14  # Google's formula


@pytest.mark.parametrize(("changes", "layers"), [({}, 24), ({"num_hidden_groups": 3}, 4)])
def test_shared_layers_have_the_same_parameters_at_every_depth(changes, layers):
    config = AlbertConfig(**changes)
    assert with_num_layers(config, layers) == config.replace(num_hidden_layers=layers)
    assert with_num_layers(config, None) is config


@pytest.mark.parametrize(
    ("changes", "layers", "named"),
    [
        ({"sharing": "ffn"}, 24, "num_hidden_layers=24"),
        ({"sharing": "none"}, 11, "num_hidden_layers=11"),
        ({"num_hidden_groups": 3}, 2, "num_hidden_groups=3"),
        ({}, 0, "num_hidden_layers=0"),
    ],
)
def test_a_depth_with_other_parameters_is_refused(changes, layers, named):
    with pytest.raises(InputError, match=named):
        with_num_layers(AlbertConfig(**changes), layers)
