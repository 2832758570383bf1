import pytest
import tensorflow as tf

import albert_tf
from tests.hub_export.conftest import CONFIG
from tests.hub_export.serving.fine_tuned import served


def test_requests_that_do_not_fit(piece_tokenizer):
    model = albert_tf.AlbertMultipleChoice(CONFIG, num_choices=3)
    chooser = served(model, piece_tokenizer, {"seq_length": 40})
    asked = {"context": ["", ""], "question": ["", ""], "options": [["one", "two", ""]] * 2}
    assert chooser.ask("serving_default", **asked)["choice"].dtype == "int32"
    with pytest.raises(tf.errors.InvalidArgumentError):
        chooser.ask("choose", **{**asked, "question": [""]})
