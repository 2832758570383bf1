import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.text.text_tokenizer import as_list, text_tensor


class Column:
    """As a pandas Series."""

    def __init__(self, *values):
        self.values = np.array(values, object)

    def to_numpy(self):
        return self.values


FORMS = (
    ["a", "é"], ("a", "é"), np.array(["a", "é"]), np.array(["a", "é"], object),
    np.array([b"a", "é".encode()]), tf.constant(["a", "é"]), Column("a", "é"),
)  # fmt: skip


@pytest.mark.parametrize("texts", FORMS, ids=lambda texts: type(texts).__name__)
def test_forms_of_the_same_texts(texts):
    tensor = text_tensor(texts, "text")
    assert tensor.dtype == tf.string
    assert tensor.numpy().tolist() == [b"a", "é".encode()]
    assert as_list(texts) == ["a", "é"]


def test_one_text_and_none():
    assert text_tensor("a", "text").numpy() == b"a"
    assert text_tensor([b"a"], "text").numpy() == [b"a"]
    assert text_tensor([], "text").shape == [0]


WRONG = [
    (["a", None], r"text\[1\]=None"),
    (Column("a", float("nan")), r"text\[1\]=nan"),
    ([["a"]], r"text\[0\]=\['a'\]"),
    (np.array([1.5]), r"text\[0\]=1.5"),
    (tf.constant([1]), "text is a tensor of int32"),
    ({"a": 1}, "text={'a': 1}"),
]


@pytest.mark.parametrize(("texts", "message"), WRONG)
def test_what_is_not_a_text(texts, message, tiny_tokenizer):
    with pytest.raises(InputError, match=message):
        text_tensor(texts, "text")
    with pytest.raises(InputError, match=f"^{message}"):
        tiny_tokenizer(texts)
