"""Published names: what is one, and what it becomes; archives and modules over loopback."""

import io
import json
import os
import subprocess
import sys
import tarfile

import numpy as np
import pytest

import albert_tf
from albert_tf import cli
from albert_tf.config import PRESETS
from albert_tf.conversion import convert, downloads, published
from albert_tf.conversion.published import ARCHIVES, local_checkpoint, publisher_of
from albert_tf.utils.errors import InputError, WorkFailed
from tests.albert_tf.conversion.loopback import COMMIT, Answer, nobody, packed, put_repository, serve, silence

SOURCES = ("google", "huggingface", "hub", "run")


def weights(run):
    return {variable.name: variable.numpy() for variable in albert_tf.load(run).variables}


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server instead of Google's, and empty caches."""
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    with serve() as server:
        monkeypatch.setattr(published, "_ARCHIVES_AT", f"{server.address}/albert_models/")
        yield server


def test_googles_names_are_those_of_the_presets():
    assert len(ARCHIVES) == 8 and set(ARCHIVES) < set(PRESETS)


@pytest.mark.parametrize("name", ["albert_base_v2", "albert/albert-base-v2", "https:/a.b/c"])
def test_what_exists_is_a_path(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir(parents=True)
    assert publisher_of(name) is None
    for source in SOURCES:
        assert str(local_checkpoint(name, source).path) == name


def test_what_looks_like_a_path_is_one():
    for name in ("/no/where", "./albert_base_v2", "a/b/c", "model.ckpt-best", "albert_base_v2.tar.gz"):
        assert publisher_of(name) is None
        for source in SOURCES:
            assert str(local_checkpoint(name, source).path) == name.removeprefix("./")


def test_whose_names_are_whose():
    assert publisher_of("albert_xxlarge_v1") == "google"
    assert publisher_of("albert/albert-base-v2") == "huggingface"
    assert publisher_of("https://tfhub.dev/tensorflow/albert_en_base/3") == "hub"


@pytest.mark.parametrize(
    ("source", "name", "known"),
    [
        ("google", "albert_base_v3", "albert_base_v1, .*albert_xxlarge_v2"),
        ("huggingface", "albert-base-v2", "OWNER/NAME of Hugging Face, such as albert/albert-base-v2"),
        ("hub", "albert_en_base", "an address of TF Hub"),
    ],
)
def test_words_that_name_nothing(source, name, known):
    with pytest.raises(InputError, match=f"^{name} is neither a path here nor a published name: {known}"):
        local_checkpoint(name, source)
    with pytest.raises(InputError, match=f"^{name} is neither .*: albert_base_v1.*OWNER/NAME.*https://"):
        publisher_of(name)


@pytest.mark.parametrize(
    ("source", "name"), [("google", "albert_base_v2"), ("huggingface", "/a"), ("run", "a")]
)
def test_revisions_are_of_repositories(source, name):
    with pytest.raises(
        InputError, match=f"revision=v1 is of a repository of Hugging Face, which {name} is not"
    ):
        local_checkpoint(name, source, "v1")


def test_google_by_name(server, golden, tmp_path):
    folder = golden / "tf1" / "shared"
    server.answers["/albert_models/albert_base_v2.tar.gz"] = Answer(packed(folder, "albert_base/"))
    convert("google", "run", "albert_base_v2", tmp_path / "1")
    convert("google", "run", "albert_base_v2", tmp_path / "2")
    assert len(server.requests) == 1
    convert("google", "run", folder, tmp_path / "3")
    for run in ("1", "2"):
        np.testing.assert_equal(weights(tmp_path / run), weights(tmp_path / "3"))


def test_google_without_a_network(server, golden, tmp_path, monkeypatch):
    monkeypatch.setattr(published, "_ARCHIVES_AT", f"{nobody()}/albert_models/")
    place = tmp_path / "cache" / "google" / "albert_base_v2.tar.gz"
    with pytest.raises(WorkFailed, match=rf"/albert_models/albert_base_v2\.tar\.gz .* put it at {place}$"):
        convert("google", "run", "albert_base_v2", tmp_path / "run")
    assert list(place.parent.iterdir()) == [] and not (tmp_path / "run").exists()
    place.write_bytes(packed(golden / "tf1" / "shared"))  # as one was told to
    convert("google", "run", "albert_base_v2", tmp_path / "run")


def test_an_archive_that_leads_out_of_its_folder(server, tmp_path):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        archive.add(__file__, "../../escaped")
    server.answers["/albert_models/albert_base_v1.tar.gz"] = Answer(content.getvalue())
    with pytest.raises(InputError, match=r"albert_base_v1\.tar\.gz is not an archive, or damaged"):
        convert("google", "run", "albert_base_v1", tmp_path / "run")
    assert not list(tmp_path.rglob("escaped"))


def test_hub_by_handle(server, shared, tmp_path):
    module = shared / "golden" / "tfhub"
    server.answers["/albert/3?tf-hub-format=compressed"] = Answer(
        status=302, headers={"Location": f"{server.address}/storage"}
    )
    server.answers["/storage"] = Answer(packed(module))
    handle = f"{server.address}/albert/3"
    convert("hub", "run", handle, tmp_path / "1")
    convert("hub", "run", handle, tmp_path / "2")
    assert len(server.requests) == 2
    assert len(list((tmp_path / "cache" / "hub").iterdir())) == 1
    convert("hub", "run", module, tmp_path / "3")
    for run in ("1", "2"):
        np.testing.assert_equal(weights(tmp_path / run), weights(tmp_path / "3"))


def link():
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        member = tarfile.TarInfo("saved_model.pb")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    return content.getvalue()


NOISE = np.random.default_rng(0).bytes(100_000)


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (Answer(status=404), InputError, r"/albert/3.* does not exist \(status 404"),
        (
            Answer(status=401),
            InputError,
            r"is not open to all \(status 401.*download it elsewhere",
        ),
        (Answer(status=500), WorkFailed, r"cannot be had now \(status 500"),
        ("breaks off", WorkFailed, "did not arrive whole"),
        ("says nothing", WorkFailed, "timed out"),
        ("not there", WorkFailed, r"refused.*: download it elsewhere and put it at .*albert%2F3\.tar\.gz"),
    ],
)
def test_handles_of_nothing(server, tmp_path, monkeypatch, answer, error, match):
    handle = f"{server.address}/albert/3"
    if answer == "breaks off":
        (tmp_path / "module").mkdir()
        (tmp_path / "module" / "variables").write_bytes(NOISE)
        answer = Answer(packed(tmp_path / "module"), cuts=[50_000])
    if isinstance(answer, Answer):
        server.answers["/albert/3?tf-hub-format=compressed"] = answer
    monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
    with silence() as silent:
        if not isinstance(answer, Answer):
            handle = f"{silent if answer == 'says nothing' else nobody()}/albert/3"
        with pytest.raises(error, match=match) as caught:
            local_checkpoint(handle, "hub")
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache" / "hub").iterdir())


@pytest.mark.parametrize("content", [NOISE, link()], ids=["noise", "link"])
def test_a_module_that_is_no_archive(server, tmp_path, content):
    server.answers["/albert/3?tf-hub-format=compressed"] = Answer(content)
    with pytest.raises(InputError, match=r"albert%2F3\.tar\.gz"):
        convert("hub", "run", f"{server.address}/albert/3", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_one_line_for_names_that_are_wrong(capsys, tmp_path):
    words = ["convert", "--from", "google", "--to", "run", "--output", str(tmp_path / "run")]
    assert cli.run([*words, "--input", "albert_base_v3"]) == 2
    assert capsys.readouterr().err.startswith(
        "albert-tf convert: albert_base_v3 is neither a path here nor a published name: albert_base_v1, "
    )
    assert cli.run([*words, "--input", "albert_base_v2", "--revision", "main"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_hugging_face_as_its_users_know_it(golden, tmp_path):
    """The command line, with the environment variables that huggingface_hub reads when it is imported."""
    with serve() as server:
        put_repository(server, "tiny/albert", golden / "hf" / "pretraining", revision="v1")
        server.answers[f"/tiny/albert/resolve/{COMMIT}/model.safetensors"].cuts = [
            1000
        ]  # which it would tell
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
            "HF_ENDPOINT": server.address,
            "HF_HOME": str(tmp_path / "home"),
            "HF_TOKEN": "hf_secret",
            "NO_PROXY": "127.0.0.1",
        }
        words = ["--from", "huggingface", "--to", "run", "--input", "tiny/albert", "--revision", "v1"]
        command = [sys.executable, "-m", "albert_tf", "convert", *words, "--output", str(tmp_path / "run")]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert (result.returncode, result.stderr) == (0, "")
        assert {headers["authorization"] for _, _, headers in server.requests} == {"Bearer hf_secret"}
        assert list((tmp_path / "home" / "hub").rglob(f"{COMMIT}/model.safetensors"))
        assert json.loads((tmp_path / "run" / "recipe.json").read_text())["commit"] == COMMIT
