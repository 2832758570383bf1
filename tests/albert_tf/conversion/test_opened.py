"""What a new model begins with: runs and modules, their vocabularies, and how their text is normalised."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from albert_tf.checkpoints.models import build_model
from albert_tf.conversion.start import opened
from albert_tf.utils.errors import InputError
from tests.tiny import TINY

CASED = {"lowercase": False, "strip_accents": True}
BOTH = {"lowercase": True, "strip_accents": True}


@pytest.fixture
def run(tiny_vocabulary, tmp_path):
    """A run whose text keeps its case."""
    model = build_model(TINY.replace(num_hidden_layers=1), {"model": "encoder"})
    albert_tf.save(model, tmp_path / "run", tiny_vocabulary, tokenizer=CASED)
    return tmp_path / "run"


def test_a_run(run, tiny_vocabulary):
    for vocabulary, tokenizer in ((None, None), (tiny_vocabulary, CASED), (None, {"lowercase": False})):
        with opened(run, vocabulary, tokenizer) as start:
            assert start.config == TINY.replace(num_hidden_layers=1)
            assert start.vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
            assert (start.tokenizer, start.run.path) == (CASED, str(run))
    with (
        pytest.raises(InputError, match=r"run was trained with .*, not with {'lowercase': True}: leave that"),
        opened(run, tokenizer=BOTH),
    ):
        pass


def test_a_module_and_how_its_text_is_normalised(shared, tmp_path):
    module = tmp_path / "module"
    shutil.copytree(shared / "golden/tfhub", module)
    for asked, expected in ((None, BOTH), ({"lowercase": False}, CASED)):  # it does not say, somebody may
        with opened(f"hub:{module}", tokenizer=asked) as start:
            assert start.tokenizer == expected
            vocabulary = shared / "data/vocabulary/30k-clean.model"
            assert start.vocabulary.read_bytes() == vocabulary.read_bytes()
            assert start.config.vocab_size == 30000
            folder = Path(start.run)
            assert np.isfinite(albert_tf.load(folder).pooler.kernel.numpy()).all()
        assert not folder.exists()  # it is there as long as the block runs
    (module / "assets/tokenizer.json").write_text(json.dumps(CASED))  # as an exported preprocessor says it
    with opened(f"hub:{module}") as start:
        assert start.tokenizer == CASED
    with pytest.raises(InputError, match="'lowercase': True"), opened(f"hub:{module}", tokenizer=BOTH):
        pass


def test_the_vocabulary_of_a_module_is_that_which_is_named(shared, tiny_vocabulary, tmp_path):
    module = tmp_path / "module"
    shutil.copytree(shared / "golden/tfhub", module)
    shutil.rmtree(module / "assets")
    with pytest.raises(InputError, match="module has no vocabulary"), opened(f"hub:{module}"):
        pass
    with pytest.raises(InputError, match="200 pieces"), opened(f"hub:{module}", tiny_vocabulary):
        pass
    remembering = tmp_path / "cased.model"
    shutil.copyfile(shared / "data/vocabulary/30k-clean.model", remembering)
    remembering.with_suffix(".tokenizer.json").write_text(json.dumps(CASED))
    with opened(f"hub:{module}", remembering) as start:
        assert start.tokenizer == CASED


def test_places_that_are_no_start(tmp_path):
    for origin in (tmp_path, f"hub:{tmp_path}"):
        with pytest.raises(FileNotFoundError, match=str(tmp_path)), opened(origin):
            pass
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    with pytest.raises(InputError, match=r"a checkpoint of Hugging Face.*convert --from"), opened(tmp_path):
        pass
