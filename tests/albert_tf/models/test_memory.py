"""Absurd sizes are refused before they are built."""

import re
from pathlib import Path

import pytest

from albert_tf import PRESETS, AlbertConfig, AlbertEncoder, parameter_count
from albert_tf.models import memory
from albert_tf.models.memory import TRAINING, check_memory, matrix_parameters, physical_memory
from albert_tf.utils.errors import InputError


@pytest.mark.parametrize("name", ["albert_base_v2", "bert_large"])
def test_matrices_are_nearly_all_parameters(name):
    counted = parameter_count(PRESETS[name])["total"]
    assert 0.995 * counted < matrix_parameters(PRESETS[name]) < counted


def test_bytes_are_compared(monkeypatch):
    total = matrix_parameters(AlbertConfig())
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4)
    check_memory(AlbertConfig())
    with pytest.raises(InputError, match="GB in training"):
        check_memory(AlbertConfig(), TRAINING)
    monkeypatch.setattr(memory, "physical_memory", lambda: total * 4 - 1)
    with pytest.raises(InputError, match="11,671,808 parameters"):
        check_memory(AlbertConfig())


@pytest.mark.parametrize("name", ["hidden_size", "intermediate_size", "vocab_size", "embedding_size"])
def test_a_network_that_no_machine_holds_is_not_built(name):
    size = 12 * 10**11
    with pytest.raises(InputError, match=f"{name}={size}"):
        AlbertEncoder(AlbertConfig(**{name: size}))


def test_the_memory_is_that_of_the_machine():
    kilobytes = int(re.search(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())[1])
    assert physical_memory() == kilobytes * 1024
