"""Models in `compile(jit_compile=True)` of Keras."""

import numpy as np
import pytest
import tf_keras as keras

import albert_tf
from tests.tiny import TINY

CONFIG = TINY.replace(num_hidden_layers=1, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
ROWS, LENGTH = 6, 12
MODELS = {
    "classifier": (lambda: albert_tf.AlbertClassifier(CONFIG, 3), {"logits": [ROWS]}),
    "token_classifier": (lambda: albert_tf.AlbertTokenClassifier(CONFIG, 3), {"logits": [ROWS, LENGTH]}),
    "span_labeler": (
        lambda: albert_tf.AlbertSpanLabeler(CONFIG),
        {"start_logits": [ROWS], "end_logits": [ROWS]},
    ),
    "answerability": (
        lambda: albert_tf.AlbertSpanLabeler(CONFIG, answerability=True),
        {"start_logits": [ROWS], "end_logits": [ROWS]},
    ),
    "multiple_choice": (lambda: albert_tf.AlbertMultipleChoice(CONFIG, 2), {"logits": [ROWS // 2]}),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "classifier" else pytest.mark.slow) for name in MODELS]
)
def test_it_learns_and_predicts(name):
    random = np.random.default_rng(0)
    build, targets = MODELS[name]
    shape = [ROWS // 2, 2, LENGTH] if name == "multiple_choice" else [ROWS, LENGTH]
    inputs = {
        "input_word_ids": random.integers(5, TINY.vocab_size, shape, np.int32),
        "input_mask": np.ones(shape, np.int32),
        "input_type_ids": np.zeros(shape, np.int32),
    }
    inputs["input_type_ids"][..., LENGTH // 2 :] = 1
    starts = {"start_positions": np.full([ROWS], 7, np.int32)} if name == "answerability" else {}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model = build()
    model.compile(keras.optimizers.Adam(1e-2), dict.fromkeys(targets, loss), jit_compile=True)
    labels = {
        output: np.full(rows, 7 if starts or "start" in output else 1) for output, rows in targets.items()
    }
    losses = model.fit(inputs | starts, labels, epochs=9, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    predicted, expected = model.predict(inputs, verbose=0), model(inputs)
    for output, values in expected.items():
        np.testing.assert_allclose(predicted[output], values, rtol=0, atol=1e-5)
