"""Repositories of Hugging Face, from a server on loopback that answers as its Hub does."""

import errno
import shutil

import pytest
from huggingface_hub import constants

from albert_tf.conversion.downloads import repository
from albert_tf.conversion.published import publisher_of
from albert_tf.utils.errors import InputError, WorkFailed
from tests.albert_tf.conversion.loopback import (
    COMMIT,
    Answer,
    instead_of_hugging_face,
    put_repository,
    serve,
    silence,
)
from tests.full_disk import no_file_beyond

NAME = "tiny/albert"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A server instead of huggingface.co, an empty cache, no token."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with serve() as server:
        instead_of_hugging_face(server.address, tmp_path / "home", monkeypatch)
        yield server


@pytest.fixture
def folder(golden, tiny_vocabulary, tmp_path):
    """What is in the repository: what is read, and what is not."""
    folder = tmp_path / "repository"
    folder.mkdir()
    shutil.copy(golden / "hf" / "pretraining" / "config.json", folder)
    shutil.copy(golden / "hf" / "pretraining" / "model.safetensors", folder)
    shutil.copy(tiny_vocabulary, folder / "spiece.model")
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "other.safetensors"):
        (folder / name).write_bytes(b"not needed")
    return folder


def refused(error, match, revision=None, name=NAME):
    with pytest.raises(error, match=match) as caught:
        repository(name, revision)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def complete_in(path):
    return sorted(file.name for file in path.iterdir())


def test_only_what_is_read_is_downloaded_and_once(hub, folder):
    put_repository(hub, NAME, folder)
    found = repository(NAME)
    assert found.name == COMMIT
    assert complete_in(found) == ["config.json", "model.safetensors", "spiece.model"]
    for file in found.iterdir():
        assert file.read_bytes() == (folder / file.name).read_bytes()
    hub.requests.clear()
    assert repository(NAME) == found
    assert hub.asked("GET") == []


def test_a_revision_and_its_commit(hub, folder, tmp_path):
    put_repository(hub, NAME, folder)
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "spiece.model").write_bytes(b"changed")
    put_repository(hub, NAME, other, revision="v2", commit="f" * 40)
    found = repository(NAME, "v2")
    assert found.name == "f" * 40 and (found / "spiece.model").read_bytes() == b"changed"
    assert repository(NAME, "f" * 40) == found
    assert repository(NAME).name == COMMIT


@pytest.mark.parametrize("how", ["offline mode", "a broken server", "a silent server"])
def test_without_the_server_the_cache_is_used_if_it_is_whole(hub, folder, tmp_path, monkeypatch, how):
    put_repository(hub, NAME, folder)
    found = repository(NAME)
    hub.requests.clear()
    if how == "offline mode":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        hub.answers.clear()
    elif how == "a broken server":
        hub.answers = dict.fromkeys(hub.answers, Answer(status=503))
    monkeypatch.setattr("albert_tf.conversion.downloads.TIMEOUT", 0.2)
    with silence() as silent:
        if how == "a silent server":
            instead_of_hugging_face(silent, tmp_path / "home", monkeypatch)
        assert repository(NAME) == found
        (found / "model.safetensors").unlink()
        message = refused(WorkFailed, "cannot be downloaded now")
    assert f"{constants.ENDPOINT}/{NAME}" in message
    assert how != "offline mode" or hub.requests == []


def test_weights_that_break_off_for_good(hub, folder, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    put_repository(hub, NAME, folder)
    answer = hub.answers[f"/{NAME}/resolve/{COMMIT}/model.safetensors"]
    answer.cuts = [1000] + [0] * 20
    refused(WorkFailed, f"/{NAME} .*cannot be downloaded now")
    answer.cuts = []
    assert "model.safetensors" in complete_in(repository(NAME))


def test_a_full_disk(hub, folder):
    put_repository(hub, NAME, folder)
    with pytest.raises(OSError) as caught, no_file_beyond(20_000):
        repository(NAME)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "RepoNotFound"), (401, "RepoNotFound"), (401, ""), (403, "GatedRepo"), (404, "RevisionNotFound")],
)
def test_what_the_server_refuses(hub, status, code):
    answer = Answer(status=status, headers={"X-Error-Code": code})
    hub.answers[f"/api/models/{NAME}/revision/v9"] = answer
    refused(InputError, rf"/{NAME} \(revision v9\).*HF_TOKEN", revision="v9")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_repositories_without_what_is_needed(hub, folder, missing):
    (folder / missing).unlink()
    put_repository(hub, NAME, folder)
    refused(InputError, f"/{NAME} .*has no .*{missing}")


def test_names(hub):
    for name in ("albert/albert-base-v2", "textattack/albert-base-v2-SST-2", "1/2.0"):
        assert publisher_of(name) == "huggingface"
    for name in ("/a/b", "a/b/c", "./b", "../b", "~/b", "a/", "a b/c", "é/b", "a/b\n", "a.b"):
        assert publisher_of(name) is None
    refused(InputError, "/a--b/c", name="a--b/c")  # the Hub allows it nobody
