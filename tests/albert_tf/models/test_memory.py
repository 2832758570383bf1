"""Absurd sizes are refused before they are built, with the field to blame."""

import re
from pathlib import Path

import pytest

from albert_tf import PRESETS, AlbertConfig, AlbertEncoder, parameter_count
from albert_tf.models import memory
from albert_tf.models.memory import TRAINING, check_memory, large_parts, physical_memory


@pytest.mark.parametrize("name", PRESETS)
def test_the_parts_are_nearly_all_parameters(name):
    counted = parameter_count(PRESETS[name])["total"]
    assert 0.995 * counted < sum(large_parts(PRESETS[name]).values()) < counted


def test_what_fits_is_a_matter_of_bytes(monkeypatch):
    total = sum(large_parts(AlbertConfig()).values())
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4)
    check_memory(AlbertConfig())
    with pytest.raises(ValueError, match=r"take 0\.2 GB in training: this machine has 0\.0 GB of memory"):
        check_memory(AlbertConfig(), TRAINING)
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4 - 1)
    expected = "hidden_size=768 and intermediate_size=3072 make 4,718,592 of 11,671,808 parameters"
    with pytest.raises(ValueError, match=expected):
        check_memory(AlbertConfig())


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": 12 * 2**30}, "hidden_size=12884901888 make"),
        ({"intermediate_size": 2**40}, "hidden_size=768 and intermediate_size=1099511627776 make"),
        ({"max_position_embeddings": 10**12}, "max_position_embeddings=1000000000000 and embedding_size=128"),
        ({"vocab_size": 10**12}, "vocab_size=1000000000000 and embedding_size=128"),
        ({"type_vocab_size": 10**12}, "type_vocab_size=1000000000000 and embedding_size=128"),
        ({"embedding_size": 10**12}, "vocab_size=30000 and embedding_size=1000000000000"),
        (
            {"hidden_size": 2**17, "num_attention_heads": 8, "num_hidden_layers": 9000, "sharing": "none"},
            "num_hidden_layers=9000 and hidden_size=131072 make",
        ),
    ],
)
def test_a_network_that_no_machine_holds_is_not_built(changes, named):
    with pytest.raises(ValueError, match=rf"^{re.escape(named)}.* parameters, which take [\d,.]+ GB:"):
        AlbertEncoder(AlbertConfig(**changes))


def test_the_memory_is_that_of_the_machine():
    kilobytes = int(re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())[1])
    assert physical_memory() == kilobytes * 1024
