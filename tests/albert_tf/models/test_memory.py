"""Absurd sizes are refused before they are built."""

import re
from pathlib import Path

import pytest

from albert_tf import AlbertConfig, AlbertEncoder
from albert_tf.errors import InputError
from albert_tf.models import memory
from albert_tf.models.memory import TRAINING, check_memory, physical_memory


def test_bytes_are_compared(monkeypatch):
    total = 11_683_584  # Lan et al. 2020, Table 2: 12M
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4)
    check_memory(AlbertConfig())
    with pytest.raises(InputError, match="GB in training"):
        check_memory(AlbertConfig(), TRAINING)
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4 - 1)
    with pytest.raises(InputError, match="11,683,584 parameters"):
        check_memory(AlbertConfig())


@pytest.mark.parametrize("name", ["hidden_size", "intermediate_size", "vocab_size", "embedding_size"])
def test_a_network_that_no_machine_holds_is_not_built(name):
    size = 12 * 10**11
    with pytest.raises(InputError, match=f"{name}={size}"):
        AlbertEncoder(AlbertConfig(**{name: size}))


def test_the_memory_is_that_of_the_machine():
    kilobytes = int(re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())[1])
    assert physical_memory() == kilobytes * 1024
