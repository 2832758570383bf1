"""Pre-trained and fine-tuned runs of six updates, settings of others like them, and where these begin."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.finetuning_settings import Finetuning
from albert_tf.pretraining import corpus, evaluation
from albert_tf.pretraining.pretrain import pretrain
from albert_tf.pretraining.pretraining_settings import Pretraining
from albert_tf.runs.build_model import build_model
from albert_tf.tasks.columns import Columns
from albert_tf.training.compute_settings import LoopSettings
from tests.albert_tf.finetuning import runs as finetuning
from tests.albert_tf.pretraining.runs import CONFIG, RECIPE, settings_factory
from tests.tiny import TINY, write_jsonl


@pytest.fixture(scope="session")
def settings(tiny_corpus, tiny_vocabulary, tmp_path_factory):
    """Settings of a run, some of them changed."""
    return settings_factory(
        tmp_path_factory,
        Pretraining,
        config=CONFIG,
        recipe=RECIPE,
        train=[str(tiny_corpus)],
        eval=[str(tiny_corpus)],
        vocabulary=tiny_vocabulary,
        loop=LoopSettings(log_every=2, eval_every=3, checkpoint_every=3),
    )


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
def begun(monkeypatch):
    """What a program would train, and the files of its run: it ends where training begins."""

    class Begun(Exception):
        pass

    def train(run, training, contents, *_, **__):
        raise Begun(training, contents)

    def begin(program, *arguments):
        with monkeypatch.context() as patch, pytest.raises(Begun) as seen:
            for module in ("pretraining.pretrain", "finetuning.finetune"):
                patch.setattr(f"albert_tf.{module}.train", train)
            program(*arguments)
        return seen.value.args

    return begin


@pytest.fixture(scope="session")
def own_table(made_once):
    """A table of sentences with two labels and a number, as JSON lines."""

    def write(folder):
        folder.mkdir()
        write_jsonl(folder / "own.jsonl", finetuning.ROWS)

    return made_once("own", write) / "own.jsonl"


@pytest.fixture(scope="session")
def asked(own_table, tiny_vocabulary, tmp_path_factory):
    """Settings of a fine-tuned run of six updates, some of them changed."""
    return settings_factory(
        tmp_path_factory,
        Finetuning,
        task="classification",
        train=own_table,
        eval=own_table,
        columns=Columns("text", None, "kind"),
        config=finetuning.CONFIG,
        vocabulary=tiny_vocabulary,
        recipe=finetuning.RECIPE,
        loop=finetuning.LOOP,
    )


@pytest.fixture(scope="session")
def finetuned(asked, made_once, tmp_path_factory):
    """A fine-tuned run of six updates without interruption, of which each process has a copy."""
    made = made_once("finetuned", lambda folder: finetune(asked(folder)))
    return shutil.copytree(made, tmp_path_factory.mktemp("finetuned") / "run")


@pytest.fixture(scope="session")
def run_of(tmp_path_factory):
    """A run of a model whose variables all differ, LayerNorms too."""

    def make(model, vocabulary=None, task=None):
        generator = np.random.default_rng(4)
        for variable in model.variables:
            variable.assign(generator.normal(0, 0.3, variable.shape))
        run = tmp_path_factory.mktemp("run") / "run"
        albert_tf.save(model, run, vocabulary, step=3, task=task)
        return run

    return make


@pytest.fixture
def tiny_model():
    """A model of a task.json, so little trained that no two of its answers are alike."""

    def make(config, **changes):
        return build_model(TINY.replace(num_hidden_layers=1, initializer_range=0.5, **changes), config)

    return make
