"""Requests that a server collects into a batch: it joins their inputs and splits the outputs by rows."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from hub_export.serving import Served, serving_signatures
from tests.albert_tf.inference.conftest import KINDS
from tests.tiny import DOCUMENTS

TEXTS = [*DOCUMENTS[0][:3], "", "für"]
MASKED = ["a [MASK] wall", "[MASK] and [MASK]", "no mask"]
REQUESTS = {
    "text": {"text": TEXTS},
    "fill_mask": {"text": MASKED},
    "pair": {"text": TEXTS, "text_pair": TEXTS[::-1]},
    "answer": {"question": TEXTS[:3], "context": [" ".join(TEXTS), TEXTS[1], ""]},
    "tag": {"text": TEXTS},
    "choose": {
        "context": TEXTS,
        "question": TEXTS[::-1],
        "options": [[text, "a", "the lamp"] for text in TEXTS],
    },
    "tokens": {
        "input_word_ids": [[2, 9, 3], [2, 3, 0]],
        "input_mask": [[1, 1, 1], [1, 1, 0]],
        "input_type_ids": [[0, 0, 0], [0, 0, 0]],
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_requests_is_answered_as_each_alone(kind, tiny_vocabulary):
    build, task = KINDS[kind]
    model = build()
    for number, variable in enumerate(model.variables):
        variable.assign_add(tf.random.stateless_normal(variable.shape, seed=[number, 2], stddev=0.2))
    tokenizer = PieceTokenizer(Vocabulary.from_file(tiny_vocabulary))
    signatures = serving_signatures(Served(model, tokenizer, task["seq_length"], task))
    functions = {signature.function: name for name, signature in signatures.items()}  # each once
    for function, name in functions.items():
        inputs = REQUESTS.get(name, REQUESTS["text"])
        answer = function.get_concrete_function()
        shapes = {key: tensor.shape for key, tensor in answer.structured_outputs.items()}
        assert all(shape.rank and shape[0] is None for shape in shapes.values()), shapes
        together = asked(answer, inputs)
        rows = len(next(iter(inputs.values())))
        for row in range(rows):
            alone = asked(answer, {key: values[row : row + 1] for key, values in inputs.items()})
            for key, values in together.items():
                assert len(values) == rows
                assert_same_row(values[row : row + 1], alone[key])


def asked(answer, inputs):
    return {
        key: tensor.numpy()
        for key, tensor in answer(**{k: tf.constant(v) for k, v in inputs.items()}).items()
    }


def assert_same_row(of_batch, alone):
    """The same but for padding: other rows may be longer."""
    rest = np.copy(of_batch)
    same = tuple(slice(0, size) for size in alone.shape)
    if alone.dtype == object:
        assert rest[same].tolist() == alone.tolist()
        rest[same] = b""
        assert not rest.any()
    else:
        np.testing.assert_allclose(rest[same], alone, atol=1e-5)
        rest[same] = 0
        assert not rest.any()
