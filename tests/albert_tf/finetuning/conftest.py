"""What fine-tuned runs of a tiny network need."""

import pytest

from albert_tf.checkpoints import build_model
from albert_tf.text import PieceTokenizer, Vocabulary
from tests.tiny import TINY


@pytest.fixture(scope="session")
def piece_tokenizer(tiny_vocabulary):
    return PieceTokenizer(Vocabulary.from_file(tiny_vocabulary))


@pytest.fixture
def tiny_model():
    """A model of what task.json says, so little trained that no two of its answers are alike."""

    def make(entries, **changes):
        config = TINY.replace(num_hidden_layers=1, initializer_range=0.5, **changes)
        return build_model(config, entries)

    return make
