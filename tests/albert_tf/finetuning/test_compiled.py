"""What XLA compiles, as it does by default on GPUs, gives the same answers, of few lengths."""

import numpy as np

from albert_tf.tasks.classification import text_rows
from albert_tf.tasks.examples.batches import few_lengths, task_batches
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.training import phases, strategies
from albert_tf.training.settings import Execution
from albert_tf.training.strategies import compiles
from tests.tiny import DOCUMENTS

SENTENCES = [sentence for document in DOCUMENTS for sentence in document]
RECORDS = [TextRecord("f", 1, "1", text, None, None) for text in SENTENCES]


def test_batches_have_the_same_examples_and_four_lengths_at_most(piece_tokenizer):
    rows = text_rows(RECORDS, piece_tokenizer, {})
    plain, padded = (
        list(task_batches(rows, 100, 3, lengths, repeat=False)) for lengths in (None, few_lengths(100))
    )
    for one, other in zip(plain, padded, strict=True):
        assert one["rows"].numpy().tolist() == other["rows"].numpy().tolist()
        length = one["input_word_ids"].shape[1]
        np.testing.assert_array_equal(one["input_word_ids"], other["input_word_ids"][:, :length])
        assert not other["input_mask"][:, length:].numpy().any()
    assert {batch["input_mask"].shape[1] for batch in padded} <= set(few_lengths(100))
    assert len(few_lengths(512)) == 4


def test_gpus_compile_unless_told_otherwise(monkeypatch):
    for kind, by_default in (("CPU", False), ("GPU", True)):
        monkeypatch.setattr(strategies, "device_kind", lambda strategy, kind=kind: kind)
        assert [compiles(xla) for xla in (None, True, False)] == [by_default, True, False]


def test_elementwise_functions_are_compiled_where_nothing_else_is(monkeypatch):
    """A TPU's programs are compiled in any case."""
    for kind, expected in (("CPU", [True, False, True]), ("GPU", [False, False, True]), ("TPU", [False] * 3)):
        for module in (strategies, phases):
            monkeypatch.setattr(module, "device_kind", lambda strategy, kind=kind: kind)
        assert [phases.is_fused(Execution(xla=xla)) for xla in (None, True, False)] == expected
