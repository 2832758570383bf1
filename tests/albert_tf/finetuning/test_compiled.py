"""What XLA compiles, as it does by default on GPUs, gives the same answers, of few lengths."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.finetuning.outputs import predictor
from albert_tf.finetuning.run import finetune
from albert_tf.tasks import kind_of
from albert_tf.tasks.classification import text_rows
from albert_tf.tasks.examples.batches import few_lengths, task_batches
from albert_tf.tasks.examples.records import ChoiceRecord, QuestionRecord, TaggedRecord, TextRecord
from albert_tf.training import strategies
from albert_tf.training.strategies import compiles
from tests.albert_tf.finetuning.runs import RECIPE
from tests.albert_tf.pretraining.runs import metrics
from tests.tiny import DOCUMENTS

SENTENCES = [sentence for document in DOCUMENTS for sentence in document]
QUESTIONS = {"doc_stride": 8, "max_query_length": 10, "max_answer_length": 5, "n_best": 4}
KINDS = {
    "classifier": (
        {"num_labels": 2, "labels": ["a", "b"]},
        [TextRecord("f", 1, "1", text, None, None) for text in SENTENCES],
    ),
    "token_classifier": (
        {"num_labels": 3, "labels": ["O", "B-X", "I-X"]},
        [TaggedRecord("f", n, tuple(text.split()), None) for n, text in enumerate(SENTENCES)],
    ),
    "span_labeler": (
        {"answerability": True, **QUESTIONS},
        [QuestionRecord(f"q{n}", f"q{n}", d[0], " ".join(d), (), False) for n, d in enumerate(DOCUMENTS)],
    ),
    "multiple_choice": (
        {"num_choices": 2},
        [
            ChoiceRecord("f", str(n), "", " ".join(d), d[0], (d[1], "No."), None)
            for n, d in enumerate(DOCUMENTS)
        ],
    ),
}


@pytest.mark.parametrize("model", KINDS)
def test_predictions_are_the_same(model, piece_tokenizer, tiny_model):
    entries, records = KINDS[model]
    entries = {"model": model, "seq_length": 40, **entries}
    kind, network = kind_of(entries), tiny_model(entries)
    examples = kind.encode(records, piece_tokenizer, False)
    plain, compiled = (predictor(kind, network, 4, xla=xla)(examples).predictions for xla in (False, True))
    for one, other in zip(map(tf.nest.flatten, plain), map(tf.nest.flatten, compiled), strict=True):
        for a, b in zip(one, other, strict=True):
            if isinstance(a, float | np.ndarray):
                np.testing.assert_allclose(a, b, atol=1e-4)
            else:
                assert a == b


def test_batches_have_the_same_examples_and_four_lengths_at_most(piece_tokenizer):
    rows = text_rows(KINDS["classifier"][1], piece_tokenizer, {})
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
    assert [compiles(xla) for xla in (None, True, False)] == [False, True, False]
    monkeypatch.setattr(strategies, "device_kind", lambda strategy: "GPU")
    assert [compiles(xla) for xla in (None, True, False)] == [True, True, False]


def test_a_compiled_run_learns_the_same(asked):
    """But for rounding, and in batches of four lengths."""
    recipe = {**RECIPE, "dropout": 0.0, "learning_rate": 1e-4}
    plain, compiled = asked(recipe=recipe), asked(recipe=recipe, xla=True)
    for run in (plain, compiled):
        finetune(run)
    for one, other in zip(metrics(plain.output), metrics(compiled.output), strict=True):
        assert one.get("loss") == pytest.approx(other.get("loss"), abs=1e-3)
        assert one.get("eval_loss") == pytest.approx(other.get("eval_loss"), abs=1e-3)
