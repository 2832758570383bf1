"""A run of six updates, and settings of others like it."""

import shutil
from pathlib import Path

import pytest

from albert_tf.pretraining import corpus, evaluation
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.runs.build_model import build_model
from albert_tf.settings import replace_fields
from albert_tf.training.compute_settings import LoopSettings
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE
from tests.tiny import TINY


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
        return replace_fields(made, **changes)

    return make


@pytest.fixture(scope="session", autouse=True)
def _datasets_are_traced_once():
    """Runs of a process whose text and settings are the same share a dataset; each has its own iterators."""
    traced, original = {}, corpus.pretraining_dataset

    def dataset(inputs, vocabulary, *size, **options):
        files = [Path(path) for path in [*inputs, vocabulary]]
        if options.get("input_context") or options.get("data_service") or not all(x.is_file() for x in files):
            return original(inputs, vocabulary, *size, **options)
        files += sorted(files[-1].parent.glob("*tokenizer.json"))
        key = (*(file.read_bytes() for file in files), size, repr(options))
        if key not in traced:
            traced[key] = original(inputs, vocabulary, *size, **options)
        return traced[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (corpus, evaluation):
            patch.setattr(module, "pretraining_dataset", dataset)
        yield


@pytest.fixture(scope="session")
def run(settings, made_once, tmp_path_factory):
    """A run of six updates without interruption, of which each process has a copy."""
    made = made_once("pretrained", lambda folder: pretrain(settings(folder)))
    return shutil.copytree(made, tmp_path_factory.mktemp("pretrained") / "run")


@pytest.fixture
def tiny_model():
    """A model of a task.json, so little trained that no two of its answers are alike."""

    def make(config, **changes):
        return build_model(TINY.replace(num_hidden_layers=1, initializer_range=0.5, **changes), config)

    return make
