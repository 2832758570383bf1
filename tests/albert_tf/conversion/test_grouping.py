import pytest

from albert_tf.checkpoints.names import variable_names
from albert_tf.conversion.grouping import whole_layers
from tests.tiny import TINY

GROUPS = TINY.replace(num_hidden_groups=3, inner_group_num=2)


def test_whole_layers():
    unshared = TINY.replace(sharing="none")
    grouped = whole_layers(unshared)
    assert (grouped.sharing, grouped.num_hidden_groups) == ("all", 3)
    assert variable_names(grouped, {"model": "encoder"}) == variable_names(unshared, {"model": "encoder"})
    assert whole_layers(GROUPS) == GROUPS
    for sharing in ("attention", "ffn"):
        with pytest.raises(ValueError, match=f'sharing="{sharing}" has no form there'):
            whole_layers(TINY.replace(sharing=sharing))
