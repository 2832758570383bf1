import numpy as np

from albert_tf.tasks.examples.predictions import characters


def test_characters():
    text = "aä🐝\u2003z\ud800b"
    places = np.cumsum([0, *(len(x.encode("utf-8", "replace")) for x in text)])
    assert characters(text, *places) == list(range(len(text) + 1))
