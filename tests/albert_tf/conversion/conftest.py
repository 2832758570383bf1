"""A server on loopback instead of Google's and Hugging Face's, and copies of recorded checkpoints."""

import shutil

import pytest

from albert_tf.conversion import download
from tests.albert_tf.conversion.loopback import instead_of_hugging_face, serve


@pytest.fixture
def point_to(monkeypatch, tmp_path):
    """Makes an address that of Google's archives and of Hugging Face, with an empty cache and no token."""

    def point(address):
        monkeypatch.setattr(download, "_ARCHIVES_URL", f"{address}/albert_models/")
        instead_of_hugging_face(address, tmp_path / "home", monkeypatch)

    return point


@pytest.fixture
def server(monkeypatch, tmp_path, point_to):
    """A server that is pointed to, and an empty cache."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    with serve() as server:
        point_to(server.address)
        yield server


@pytest.fixture
def google_folder(golden, tmp_path):
    """A copy of a recorded checkpoint of Google, to be changed."""
    return shutil.copytree(golden / "tf1" / "shared", tmp_path / "google")


@pytest.fixture
def hf_folder(golden, tmp_path):
    """A copy of a recorded folder of transformers, to be changed."""
    return shutil.copytree(golden / "hf" / "pretraining", tmp_path / "hf")


@pytest.fixture
def module(shared, tmp_path):
    """A copy of the recorded TF 2 encoder, to be changed."""
    return shutil.copytree(shared / "golden" / "tfhub", tmp_path / "hub")
