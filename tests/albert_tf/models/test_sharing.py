"""The sharing plan against tables made by hand."""

import pytest

from albert_tf import AlbertConfig
from albert_tf.models.sharing import BlockPair, BlockPath, at_depth, sharing_plan
from albert_tf.utils.errors import InputError


def plan(**changes) -> list[tuple[int, int, int, int]]:
    """(attention's group, its inner group, feed-forward's group, its inner group) of each pair."""
    return [(*pair.attention, *pair.feed_forward) for pair in sharing_plan(AlbertConfig(**changes))]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sharing": "all"}, [(0, 0, 0, 0)] * 3),
        ({"sharing": "attention"}, [(0, 0, 0, 0), (0, 0, 1, 0), (0, 0, 2, 0)]),
        ({"sharing": "ffn"}, [(0, 0, 0, 0), (1, 0, 0, 0), (2, 0, 0, 0)]),
        ({"sharing": "none"}, [(0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 2, 0)]),
        ({"sharing": "none", "num_hidden_groups": 2}, [(0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 2, 0)]),
        ({"num_hidden_groups": 3}, [(0, 0, 0, 0), (1, 0, 1, 0), (2, 0, 2, 0)]),
        ({"num_hidden_groups": 2}, [(0, 0, 0, 0), (0, 0, 0, 0), (1, 0, 1, 0)]),
        ({"inner_group_num": 2}, [(0, 0, 0, 0), (0, 1, 0, 1)] * 3),
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
    groups = [
        pair.attention.group
        for pair in sharing_plan(AlbertConfig(num_hidden_layers=44, num_hidden_groups=22))
    ]
    assert groups == [layer // 2 for layer in range(44)]
    assert int(30 / 44 * 22) == 14 != groups[30]  # Google's formula


@pytest.mark.parametrize(("layers", "groups"), [(12, 1), (12, 4), (7, 3), (24, 24), (44, 22)])
def test_groups_are_consecutive_complete_and_even(layers, groups):
    pairs = sharing_plan(AlbertConfig(num_hidden_layers=layers, num_hidden_groups=groups))
    used = [pair.attention.group for pair in pairs]
    sizes = [used.count(group) for group in range(groups)]
    assert used == sorted(used) and sum(sizes) == layers
    assert max(sizes) - min(sizes) <= 1
    assert all(pair == BlockPair(pair.attention, pair.attention) for pair in pairs)


def test_scope_is_googles():
    assert BlockPath(3, 1).scope() == "encoder/transformer/group_3/inner_group_1"


@pytest.mark.parametrize(("changes", "layers"), [({}, 1), ({}, 24), ({"num_hidden_groups": 3}, 4)])
def test_shared_layers_have_the_same_parameters_at_every_depth(changes, layers):
    config = AlbertConfig(**changes)
    found = at_depth(config, layers)
    assert found == config.replace(num_hidden_layers=layers)
    assert at_depth(config, None) is config


@pytest.mark.parametrize(
    ("changes", "layers", "message"),
    [
        ({"sharing": "attention"}, 3, 'num_hidden_layers=3 has other parameters than the 12 .*"attention"'),
        ({"sharing": "ffn"}, 24, 'num_hidden_layers=24 has other parameters .*sharing="ffn" gives each its'),
        ({"sharing": "none"}, 11, r"num_hidden_layers=11 .*only with sharing=\"all\" can depth change"),
        ({"num_hidden_groups": 3}, 2, "num_hidden_groups=3 is more than num_hidden_layers=2"),
        ({}, 0, "num_hidden_layers=0 must be at least 1"),
    ],
)
def test_a_depth_with_other_parameters_is_refused(changes, layers, message):
    with pytest.raises(InputError, match=message):
        at_depth(AlbertConfig(**changes), layers)
