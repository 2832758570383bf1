"""Runs of published checkpoints: converted once, whole, and used again."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from albert_tf.conversion import convert, published
from albert_tf.conversion import start as starts
from albert_tf.conversion.start import run_at
from albert_tf.utils.errors import InputError
from tests.albert_tf.conversion.loopback import (
    COMMIT,
    Answer,
    instead_of_hugging_face,
    nobody,
    packed,
    put_repository,
    serve,
)
from tests.albert_tf.conversion.tf1 import weights


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server instead of Google's and Hugging Face's, and empty caches."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    with serve() as server:
        point_to(server.address, tmp_path, monkeypatch)
        yield server


def point_to(address, tmp_path, monkeypatch):
    monkeypatch.setattr(published, "_ARCHIVES_AT", f"{address}/albert_models/")
    instead_of_hugging_face(address, tmp_path / "home", monkeypatch)


@pytest.mark.parametrize("source", ["google", "huggingface", "hub"])
def test_converted_once(server, golden, shared, tmp_path, monkeypatch, source):
    name, folder = {
        "google": ("albert_base_v2", golden / "tf1" / "shared"),
        "huggingface": ("tiny/albert", golden / "hf" / "pretraining"),
        "hub": (f"{server.address}/albert/3", shared / "golden" / "tfhub"),
    }[source]
    if source == "huggingface":
        put_repository(server, name, folder)
    for path in ("/albert_models/albert_base_v2.tar.gz", "/albert/3?tf-hub-format=compressed"):
        server.answers[path] = Answer(packed(folder))
    run = Path(run_at(name))
    assert run.is_relative_to(tmp_path / "cache" / "runs" / source)
    convert(source, "run", folder, tmp_path / "converted")
    np.testing.assert_equal(weights(run), weights(tmp_path / "converted"))
    commit = COMMIT if source == "huggingface" else None
    assert json.loads((run / "recipe.json").read_text()).get("commit") == commit
    assert [path.name for path in run.parent.iterdir()] == [run.name]
    convert(source, "run", name, tmp_path / "again")
    if source != "huggingface":
        assert len(server.requests) == 1
    point_to(nobody(), tmp_path, monkeypatch)
    monkeypatch.setattr(starts, "convert", None)
    assert run_at(name).path == str(run)


def test_nothing_is_left_of_what_cannot_be_converted(server, golden, tmp_path):
    folder = shutil.copytree(golden / "hf" / "pretraining", tmp_path / "folder")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 5}))
    put_repository(server, "tiny/albert", folder)
    with pytest.raises(InputError, match="the config says"):
        run_at("tiny/albert")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() or "writing" in path.name]


def test_another_process_that_is_faster(server, golden, tmp_path, monkeypatch):
    put_repository(server, "tiny/albert", golden / "hf" / "pretraining")
    run = Path(run_at("tiny/albert"))
    run.rename(tmp_path / "theirs")

    def convert_meanwhile(*arguments, **settings):
        shutil.copytree(tmp_path / "theirs", run)
        return convert(*arguments, **settings)

    monkeypatch.setattr(starts, "convert", convert_meanwhile)
    assert run_at("tiny/albert").path == str(run)
    assert [path.name for path in run.parent.iterdir()] == [run.name]


def test_paths_are_themselves(tmp_path):
    for path in (str(tmp_path), str(tmp_path / "nothing"), "ram://nothing"):
        assert run_at(path).path == path
    with pytest.raises(InputError, match="word is neither a path here nor a published name: albert_base_v1"):
        run_at("word")
