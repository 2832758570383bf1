"""Starts of a new model: runs, modules, and published checkpoints, which are converted once."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.conversion.init_from import open_init_from, resolve_run
from albert_tf.errors import InputError
from albert_tf.runs.build_model import build_model
from tests.albert_tf.conversion.loopback import COMMIT, Answer, nobody, packed, put_repository
from tests.albert_tf.pretraining.runs import weights
from tests.tiny import TINY, change_json

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
        with open_init_from(run, vocabulary, tokenizer) as start:
            assert start.config == TINY.replace(num_hidden_layers=1)
            assert start.vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
            assert (start.tokenizer, start.run.path) == (CASED, str(run))
    with (
        pytest.raises(InputError, match=r"not with {'lowercase': True}"),
        open_init_from(run, tokenizer=BOTH),
    ):
        pass


def test_a_module_and_how_its_text_is_normalised(module, published_vocabulary):
    for asked, expected in ((None, BOTH), ({"lowercase": False}, CASED)):  # it does not say, somebody may
        with open_init_from(f"hub:{module}", tokenizer=asked) as start:
            assert start.tokenizer == expected
            assert start.vocabulary.read_bytes() == published_vocabulary.read_bytes()
            assert start.config.vocab_size == 30000
            folder = Path(start.run)
            assert np.isfinite(albert_tf.load(folder).pooler.kernel.numpy()).all()
        assert not folder.exists()  # it is there as long as the block runs
    (module / "assets/tokenizer.json").write_text(json.dumps(CASED))  # as an exported preprocessor says it
    with open_init_from(f"hub:{module}") as start:
        assert start.tokenizer == CASED
    module = f"hub:{module}"
    with pytest.raises(InputError, match="'lowercase': True"), open_init_from(module, tokenizer=BOTH):
        pass


def test_the_vocabulary_of_a_module_is_that_which_is_named(
    module, published_vocabulary, tiny_vocabulary, tmp_path
):
    shutil.rmtree(module / "assets")
    with pytest.raises(InputError, match="hub has no vocabulary"), open_init_from(f"hub:{module}"):
        pass
    with pytest.raises(InputError, match="200 pieces"), open_init_from(f"hub:{module}", tiny_vocabulary):
        pass
    remembering = shutil.copyfile(published_vocabulary, tmp_path / "cased.model")
    remembering.with_suffix(".tokenizer.json").write_text(json.dumps(CASED))
    with open_init_from(f"hub:{module}", remembering) as start:
        assert start.tokenizer == CASED


def test_places_that_are_no_start(tmp_path):
    for origin in (tmp_path, f"hub:{tmp_path}"):
        with pytest.raises(FileNotFoundError, match=str(tmp_path)), open_init_from(origin):
            pass
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors"), open_init_from(tmp_path):
        pass


def test_a_folder_of_transformers(run, tmp_path):
    """It is converted once, and again when it has changed; a run's own commands say how to convert it."""
    convert("run", "huggingface", run, tmp_path / "theirs")
    first = resolve_run(tmp_path / "theirs")
    assert resolve_run(tmp_path / "theirs").path == first.path
    np.testing.assert_equal(weights(first), weights(run))
    with open_init_from(tmp_path / "theirs") as start:
        assert (start.tokenizer, start.run.path) == (CASED, first.path)
    (tmp_path / "theirs/config.json").touch()
    assert resolve_run(tmp_path / "theirs").path != first.path
    with pytest.raises(FileNotFoundError, match=r"a checkpoint of Hugging Face: .*convert --from"):
        _ = albert_tf.load(tmp_path / "theirs")


@pytest.mark.parametrize("source", ["google", "huggingface", "hub"])
def test_converted_once(server, golden, shared, tmp_path, monkeypatch, point_to, source):
    name, folder = {
        "google": ("albert_base_v2", golden / "tf1" / "shared"),
        "huggingface": ("tiny/albert", golden / "hf" / "pretraining"),
        "hub": (f"{server.address}/albert/3", shared / "golden" / "tfhub"),
    }[source]
    if source == "huggingface":
        put_repository(server, name, folder)
    for path in ("/albert_models/albert_base_v2.tar.gz", "/albert/3?tf-hub-format=compressed"):
        server.answers[path] = Answer(packed(folder))
    run = Path(resolve_run(name))
    assert run.is_relative_to(tmp_path / "cache") and run.parts[-3] == source
    convert(source, "run", folder, tmp_path / "converted")
    np.testing.assert_equal(weights(run), weights(tmp_path / "converted"))
    commit = COMMIT if source == "huggingface" else None
    assert json.loads((run / "recipe.json").read_text()).get("commit") == commit
    assert [path.name for path in run.parent.iterdir()] == [run.name]
    convert(source, "run", name, tmp_path / "again")
    if source != "huggingface":
        assert len(server.requests) == 1
    point_to(nobody())
    monkeypatch.setattr("albert_tf.conversion.convert.convert", None)
    assert resolve_run(name).path == str(run)


@pytest.mark.parametrize("is_published", [False, True])
def test_a_vocabulary_replaces_a_tokenizer_that_cannot_be_converted(
    run, server, tiny_vocabulary, tmp_path, is_published
):
    origin = tmp_path / "theirs"
    convert("run", "huggingface", run, origin)
    change_json(origin / "tokenizer_config.json", tokenizer_class="BertJapaneseTokenizer")
    if is_published:
        put_repository(server, "tiny/albert", origin)
        origin = "tiny/albert"
    with pytest.raises(InputError, match="BertJapaneseTokenizer"), open_init_from(origin):
        pass
    with open_init_from(origin, tiny_vocabulary) as start:
        assert start.vocabulary.read_bytes() == tiny_vocabulary.read_bytes()
        np.testing.assert_equal(weights(start.run), weights(run))


def test_a_run_that_an_earlier_version_converted_is_made_anew(server, golden, tmp_path):
    put_repository(server, "tiny/albert", golden / "hf" / "pretraining")
    earlier = tmp_path / "cache/runs/huggingface/tiny%2Falbert" / COMMIT
    earlier.mkdir(parents=True)
    assert albert_tf.load(resolve_run("tiny/albert").path)
    assert not list(earlier.iterdir())


def test_nothing_is_left_of_what_cannot_be_converted(server, hf_folder, tmp_path):
    change_json(hf_folder / "config.json", intermediate_size=5)
    put_repository(server, "tiny/albert", hf_folder)
    with pytest.raises(InputError, match="the config says"):
        resolve_run("tiny/albert")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() or "writing" in path.name]


def test_another_process_that_is_faster(server, golden, tmp_path, monkeypatch):
    put_repository(server, "tiny/albert", golden / "hf" / "pretraining")
    run = Path(resolve_run("tiny/albert"))
    run.rename(tmp_path / "theirs")

    def convert_meanwhile(*arguments, **settings):
        shutil.copytree(tmp_path / "theirs", run)
        return convert(*arguments, **settings)

    monkeypatch.setattr("albert_tf.conversion.convert.convert", convert_meanwhile)
    assert resolve_run("tiny/albert").path == str(run)
    assert [path.name for path in run.parent.iterdir()] == [run.name]


def test_paths_are_themselves(tmp_path):
    for path in (str(tmp_path), str(tmp_path / "nothing"), "ram://nothing"):
        assert resolve_run(path).path == path
    with pytest.raises(InputError, match="word is neither a path here nor a published name: albert_base_v1"):
        resolve_run("word")
