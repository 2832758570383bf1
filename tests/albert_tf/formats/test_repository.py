"""Repositories of Hugging Face, from a server on loopback that answers as its Hub does."""

import errno
import json
import shutil
import time

import pytest
from huggingface_hub import constants

from albert_tf.errors import InputError, WorkFailed
from albert_tf.formats.repository import is_repository, repository
from tests.albert_tf.formats.loopback import (
    COMMIT,
    Answer,
    instead_of_hugging_face,
    missing_file,
    nobody,
    put_repository,
    serve,
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
    for name in ("pytorch_model.bin", "tf_model.h5", "README.md", "tokenizer.json"):
        (folder / name).write_bytes(b"not needed")
    return folder


def refused(error, match, revision=None):
    with pytest.raises(error, match=match) as caught:
        repository(NAME, revision)
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
    assert sorted(hub.asked("GET")) == ["config.json", "model.safetensors", "spiece.model"]
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


def test_a_branch_that_moves_between_two_files(hub, folder, tmp_path):
    """What comes after the config is of the config's commit."""
    put_repository(hub, NAME, folder)
    put_repository(hub, NAME, folder, commit="e" * 40)
    for path in [path for path in hub.answers if "/main/" in path and not path.endswith("config.json")]:
        del hub.answers[path]
    assert repository(NAME).name == "e" * 40


def test_large_files_are_elsewhere_and_the_token_does_not_go_there(hub, folder, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    put_repository(hub, NAME, folder)
    content = (folder / "model.safetensors").read_bytes()
    elsewhere = hub.address.replace("127.0.0.1", "localhost")
    for place in ("main", COMMIT):
        hub.answers[f"/{NAME}/resolve/{place}/model.safetensors"] = Answer(
            status=302,
            headers={
                "Location": f"{elsewhere}/storage/blob",
                "X-Linked-Etag": '"blob"',
                "X-Linked-Size": str(len(content)),
                "X-Repo-Commit": COMMIT,
            },
        )
    hub.answers["/storage/blob"] = Answer(content, cuts=[1000])  # and breaks off there
    assert (repository(NAME) / "model.safetensors").read_bytes() == content
    tokens = {path: headers.get("authorization") for _, path, headers in hub.requests}
    assert tokens.pop("/storage/blob") is None
    assert set(tokens.values()) == {"Bearer hf_secret"}


def test_weights_of_another_size_than_told(hub, folder):
    put_repository(hub, NAME, folder)
    answer = hub.answers[f"/{NAME}/resolve/{COMMIT}/model.safetensors"]
    answer.headers = {**answer.headers, "X-Linked-Size": str(len(answer.content) + 1)}
    message = refused(WorkFailed, f"/{NAME} cannot be downloaded now .*try again")
    assert f"size {len(answer.content) + 1} but has size {len(answer.content)}" in message


def test_weights_in_parts(hub, folder):
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    index = {"weight_map": {"albert.pooler.bias": "model-00001-of-00001.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    put_repository(hub, NAME, folder)
    assert {"model-00001-of-00001.safetensors", "model.safetensors.index.json"} <= set(
        complete_in(repository(NAME))
    )


def test_a_tokenizer_where_there_is_no_vocabulary(hub, folder):
    (folder / "spiece.model").unlink()
    (folder / "tokenizer_config.json").write_text("{}")
    put_repository(hub, NAME, folder)
    assert complete_in(repository(NAME)) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.mark.parametrize("how", ["offline mode", "no network", "a broken server"])
def test_without_the_server_the_cache_is_used_if_it_is_whole(hub, folder, tmp_path, monkeypatch, how):
    put_repository(hub, NAME, folder)
    found = repository(NAME)
    hub.requests.clear()
    if how == "offline mode":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        hub.answers.clear()
    elif how == "no network":
        instead_of_hugging_face(nobody(), tmp_path / "home", monkeypatch)
    else:
        hub.answers = dict.fromkeys(hub.answers, Answer(status=503))
    started = time.monotonic()
    assert repository(NAME) == found
    (found / "model.safetensors").unlink()
    message = refused(WorkFailed, "is not a path here, revision main is not whole in .*cannot be asked")
    assert time.monotonic() - started < 5
    said = {"offline mode": "HF_HUB_OFFLINE is set", "no network": "refused", "a broken server": "503"}[how]
    assert said in message
    files = "config.json, model.safetensors, spiece.model and tokenizer_config.json"
    assert f"download {files} of {constants.ENDPOINT}/{NAME}" in message
    assert how != "offline mode" or hub.requests == []


def test_weights_that_break_off_for_good(hub, folder, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    put_repository(hub, NAME, folder)
    answer = hub.answers[f"/{NAME}/resolve/{COMMIT}/model.safetensors"]
    answer.cuts = [1000] + [0] * 20
    refused(WorkFailed, f"/{NAME} cannot be downloaded now .*try again")
    answer.cuts = []
    assert "model.safetensors" in complete_in(repository(NAME))


def test_storage_that_fails(hub, folder, monkeypatch):
    """Xet's library waits for two minutes before it says so; it raises what it does in reality."""

    def fail(**arguments):
        raise RuntimeError("Task error: CAS Client Error: Request middleware error")

    monkeypatch.setattr("huggingface_hub.file_download.xet_get", fail)
    put_repository(hub, NAME, folder)
    answer = hub.answers[f"/{NAME}/resolve/{COMMIT}/model.safetensors"]
    answer.headers = {**answer.headers, "X-Xet-Hash": "a" * 64, "X-Xet-Refresh-Route": hub.address}
    refused(WorkFailed, r"cannot be downloaded now \(Task error: CAS.*\): try again, .*HF_HUB_DISABLE_XET=1$")


def test_a_full_disk(hub, folder):
    put_repository(hub, NAME, folder)
    with pytest.raises(OSError) as caught, no_file_beyond(20_000):
        repository(NAME)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    ("status", "headers", "match"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, f"{NAME} is neither a path here nor a repository of .*token"),
        (401, {"X-Error-Code": "RepoNotFound"}, "check the name; a private one needs a token, by HF_TOKEN"),
        (401, {}, r"refuses the token \(status 401\): give another by HF_TOKEN"),
        (403, {}, r"refuses the token \(status 403\)"),
        (403, {"X-Error-Code": "GatedRepo"}, "is gated: ask for access there, and give a token by HF_TOKEN"),
        (404, {"X-Error-Code": "RevisionNotFound"}, "has no revision v9: name a branch, tag or commit"),
    ],
)
def test_what_the_server_refuses(hub, status, headers, match, tmp_path):
    hub.answers[f"/{NAME}/resolve/v9/config.json"] = Answer(status=status, headers=headers)
    refused(InputError, match, revision="v9")
    assert len(hub.requests) == 1
    assert not (tmp_path / "home" / "hub").exists()


def test_repositories_without_what_is_needed(hub, folder):
    (folder / "model.safetensors").unlink()
    put_repository(hub, NAME, folder)
    refused(InputError, rf"/{NAME} has no model\.safetensors, and pickles.*refs/pr/1.*save_pretrained")
    assert hub.asked("GET") == ["config.json"]
    for path in hub.answers:
        hub.answers[path] = missing_file()
    refused(InputError, rf"/{NAME} has no config\.json: name a repository with a model")


def test_names():
    assert all(
        map(is_repository, ["albert/albert-base-v2", "a/b", "textattack/albert-base-v2-SST-2", "1/2.0"])
    )
    others = ["albert-base-v2", "/a/b", "a/b/c", "./b", "../b", "~/b", "a/", "a b/c", "é/b", "a/b\n", ""]
    assert not any(map(is_repository, others))


def test_a_name_that_the_hub_allows_nobody(hub):
    with pytest.raises(InputError, match=r"a--b/c is neither a path here nor a name at Hugging Face: "):
        repository("a--b/c")
