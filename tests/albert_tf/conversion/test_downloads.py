"""Files, and repositories of Hugging Face, over loopback: whole, or one line and nothing left."""

import base64
import contextlib
import errno
import hashlib
import shutil

import numpy as np
import pytest
from huggingface_hub import constants

from albert_tf.conversion import download as download_module
from albert_tf.conversion.download import download_file, download_repository
from albert_tf.errors import InputError, WorkFailed
from tests.albert_tf.conversion.loopback import COMMIT, Answer, nobody, put_repository, silence
from tests.full_disk import no_file_beyond

CONTENT = np.random.default_rng(0).bytes(300_000)
NAME = "tiny/albert"


def names(path):
    return sorted(file.name for file in path.iterdir())


def test_redirects_are_followed_and_folders_made(server, tmp_path):
    server.answers["/file"] = Answer(status=302, headers={"Location": f"{server.address}/elsewhere"})
    server.answers["/elsewhere"] = Answer(CONTENT)
    download_file(f"{server.address}/file", tmp_path / "new" / "folder" / "file")
    assert (tmp_path / "new" / "folder" / "file").read_bytes() == CONTENT
    assert names(tmp_path / "new" / "folder") == ["file"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=404), InputError),
        (Answer(status=403), InputError),
        (Answer(status=503), WorkFailed),
        (Answer(CONTENT, cuts=[1000]), WorkFailed),
        ("refuses", WorkFailed),
        ("says nothing", WorkFailed),
    ],
    ids=["not there", "not open", "broken", "breaks off", "refuses", "says nothing"],
)
def test_what_does_not_arrive(server, tmp_path, monkeypatch, answer, error):
    monkeypatch.setattr(download_module, "TIMEOUT", 0.2)
    with silence() as silent:
        address = {"refuses": nobody(), "says nothing": silent}.get(str(answer), server.address)
        if isinstance(answer, Answer):
            server.answers["/file"] = answer
        with pytest.raises(error, match=f"{address}/file") as caught:
            download_file(f"{address}/file", tmp_path / "folder" / "file")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(f"put it at {tmp_path / 'folder' / 'file'}")
    assert names(tmp_path / "folder") == []


@pytest.mark.parametrize("is_sound", [True, False])
def test_what_arrives_has_the_digest_that_the_server_sends(server, tmp_path, is_sound):
    """As Google's storage does; of other servers nothing is known."""
    digest = base64.b64encode(hashlib.md5(CONTENT if is_sound else b"").digest()).decode()
    server.answers["/file"] = Answer(CONTENT, headers={"x-goog-hash": f"crc32c=n03x6A==, md5={digest}"})
    with contextlib.nullcontext() if is_sound else pytest.raises(WorkFailed, match="MD5"):
        download_file(f"{server.address}/file", tmp_path / "folder" / "file")
    assert names(tmp_path / "folder") == ["file"] * is_sound


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_large_file_of_a_repository_has_its_digest(server, repository_folder, is_sound):
    """Its ETag; a file that has another is not kept."""
    put_repository(server, NAME, repository_folder)
    answer = server.answers[f"/{NAME}/resolve/{COMMIT}/model.safetensors"]
    digest = hashlib.sha256(answer.content).hexdigest() if is_sound else "0" * 64
    answer.headers = {**answer.headers, "ETag": f'"{digest}"'}
    if not is_sound:
        for _ in range(2):
            refused(WorkFailed, "did not arrive as it is there")
        digest = hashlib.sha256(answer.content).hexdigest()
        answer.headers = {**answer.headers, "ETag": f'"{digest}"'}
    assert (download_repository(NAME) / "model.safetensors").read_bytes() == answer.content


def test_a_full_disk(server, tmp_path, repository_folder):
    server.answers["/file"] = Answer(CONTENT)
    with pytest.raises(OSError) as caught, no_file_beyond(100_000):
        download_file(f"{server.address}/file", tmp_path / "file")
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "file"))
    assert names(tmp_path) == ["repository"]
    put_repository(server, NAME, repository_folder)
    with pytest.raises(OSError) as caught, no_file_beyond(20_000):
        download_repository(NAME)
    assert caught.value.errno == errno.EFBIG


@pytest.fixture
def repository_folder(golden, tiny_vocabulary, tmp_path):
    """The files of a repository, those that are read and others."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        shutil.copy(golden / "hf" / "pretraining" / name, folder)
    shutil.copy(tiny_vocabulary, folder / "spiece.model")
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "other.safetensors"):
        (folder / name).write_bytes(b"not needed")
    return folder


def refused(error, match, revision=None, name=NAME):
    with pytest.raises(error, match=match) as caught:
        download_repository(name, revision)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_only_what_is_read_is_downloaded_and_once(server, repository_folder):
    put_repository(server, NAME, repository_folder)
    found = download_repository(NAME)
    assert found.name == COMMIT
    assert names(found) == ["config.json", "model.safetensors", "spiece.model"]
    for file in found.iterdir():
        assert file.read_bytes() == (repository_folder / file.name).read_bytes()
    server.requests.clear()
    assert download_repository(NAME) == found
    assert server.asked("GET") == []


@pytest.mark.parametrize("how", ["offline mode", "a broken server", "a silent server"])
def test_without_the_server_the_cache_is_used_if_it_is_whole(
    server, repository_folder, monkeypatch, how, point_to
):
    put_repository(server, NAME, repository_folder)
    found = download_repository(NAME)
    server.requests.clear()
    if how == "offline mode":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        server.answers.clear()
    elif how == "a broken server":
        server.answers = dict.fromkeys(server.answers, Answer(status=503))
    monkeypatch.setattr(download_module, "TIMEOUT", 0.2)
    with silence() as silent:
        if how == "a silent server":
            point_to(silent)
        assert download_repository(NAME) == found
        (found / "model.safetensors").unlink()
        message = refused(WorkFailed, "cannot be downloaded now")
    assert f"{constants.ENDPOINT}/{NAME}" in message
    assert how != "offline mode" or server.requests == []


@pytest.mark.parametrize(
    ("status", "code"),
    [(404, "RepoNotFound"), (401, "RepoNotFound"), (401, ""), (403, "GatedRepo"), (404, "RevisionNotFound")],
)
def test_what_the_server_refuses(server, status, code):
    answer = Answer(status=status, headers={"X-Error-Code": code})
    server.answers[f"/api/models/{NAME}/revision/v9"] = answer
    refused(InputError, rf"/{NAME} \(revision v9\).*HF_TOKEN", revision="v9")


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors"])
def test_repositories_without_what_is_needed(server, repository_folder, missing):
    (repository_folder / missing).unlink()
    put_repository(server, NAME, repository_folder)
    refused(InputError, f"/{NAME} .*has no .*{missing}")
    refused(InputError, "/a--b/c", name="a--b/c")  # the Hub allows it nobody
