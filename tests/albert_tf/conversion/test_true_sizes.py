"""Conversions of a checkpoint of the base model's true size: values and memory."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "convert_memory.py"


def test_base_comes_back_bit_for_bit_and_takes_little_memory(monkeypatch):
    """google → run → huggingface → run → google; the memory without what TensorFlow takes by itself."""
    monkeypatch.syspath_prepend(BENCHMARK.parent)
    spec = importlib.util.spec_from_file_location("convert_memory", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    rows = benchmark.measure("albert_base_v2")  # ends the test where a bit differs
    # 11,683,584 parameters of the encoder and 130,226 of the two heads, 4 bytes each; the step, 8.
    assert {row["size"] for row in rows} == {4 * (11_683_584 + 130_226) + 8}
    assert len(rows) == 4 and all(row["net"] <= 2.5 * row["size"] for row in rows), rows
