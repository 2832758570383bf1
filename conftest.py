"""Examples in docstrings run in a folder with what `make demo` leaves: a small run in demo-output."""

from pathlib import Path

import pytest

RUN = "demo-output/run"


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory) -> Path:
    """A run of the smallest network, pre-trained for no step."""
    import albert_tf
    from albert_tf.text.vocabulary_training import train_vocabulary
    from tests.tiny import TINY, write_corpus

    folder = tmp_path_factory.mktemp("demo")
    config = TINY.replace(max_position_embeddings=128)  # as many as the demo's network has
    vocabulary = folder / "spiece.model"
    train_vocabulary(write_corpus(folder), vocabulary, vocab_size=config.vocab_size)
    albert_tf.save(albert_tf.AlbertPretrainer(config), folder / RUN, vocabulary=vocabulary)
    return folder / RUN


@pytest.fixture(autouse=True)
def _folder_of_an_example(request):
    """Has an example that names the run find it, and write beside it."""
    if isinstance(request.node, pytest.DoctestItem):
        example = request.node.dtest
        if any(RUN in part.source for part in example.examples):
            run, folder = request.getfixturevalue("demo_run"), request.getfixturevalue("tmp_path")
            (folder / RUN).parent.mkdir()
            (folder / RUN).symlink_to(run)
            request.getfixturevalue("monkeypatch").chdir(folder)
