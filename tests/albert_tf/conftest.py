"""A run of six updates, and settings of others like it."""

import pytest

from albert_tf.pretraining.run import pretrain
from albert_tf.pretraining.settings import Pretraining
from albert_tf.records import changed
from albert_tf.training.settings import LoopSettings
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE


@pytest.fixture(scope="session")
def settings(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """Settings of a run, some of them changed."""

    def make(output=None, **changes) -> Pretraining:
        made = Pretraining(
            output=output or tmp_path_factory.mktemp("pretrain") / "run",
            config=CONFIG,
            recipe=RECIPE,
            train=[str(tiny_corpus)],
            eval=[str(tiny_corpus)],
            vocabulary=tiny_vocabulary,
            loop=LoopSettings(log_every=2, eval_every=3, checkpoint_every=3),
        )
        return changed(made, **changes)

    return make


@pytest.fixture(scope="session")
def run(settings):
    """A run of six updates without interruption."""
    made = settings()
    pretrain(made)
    return made.output
