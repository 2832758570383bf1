"""Operations of a forward pass are counted, and compiled chains are few of them."""

from albert_tf import PRESETS
from benchmarks import operations
from tests.tiny import TINY


def test_compiled_chains_are_one_operation_each(monkeypatch):
    monkeypatch.setitem(PRESETS, "tiny", TINY.replace(max_position_embeddings=operations.LENGTH))
    (_, plain), (_, fused) = (
        operations.counted("tiny", "float32", training=True, fused=fused) for fused in (False, True)
    )
    layers = TINY.num_hidden_layers
    calls = sum(count for kind, count in fused.items() if kind.endswith("PartitionedCall"))
    assert calls == 4 * layers  # the activation, softmax, two LayerNorms
    assert plain["MatMul"] == fused["MatMul"] > 4 * layers
    assert fused["Rsqrt"] == 1 < plain["Rsqrt"]  # that of the embeddings
    assert fused.total() < plain.total()
