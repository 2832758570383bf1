"""Published names: what is one, and what it becomes; archives and modules over loopback."""

import io
import json
import os
import subprocess
import sys
import tarfile

import pytest

from albert_tf.config import ARCHIVES, PRESETS, published_format
from albert_tf.conversion.convert import convert
from albert_tf.conversion.download import cache_folder, local_checkpoint
from albert_tf.errors import InputError, WorkFailed
from tests.albert_tf.conversion.loopback import COMMIT, Answer, nobody, packed, put_repository, serve

SOURCES = ("google", "huggingface", "hub", "run")


def test_names_and_paths(tmp_path, monkeypatch):
    assert len(ARCHIVES) == 8 and set(ARCHIVES) < set(PRESETS)
    names = {"albert_xxlarge_v1": "google", "albert/albert-base-v2": "huggingface", "https://a.b/c": "hub"}
    for name, source in names.items():
        assert published_format(name) == source
    for name in ("textattack/albert-base-v2-SST-2", "1/2.0"):
        assert published_format(name) == "huggingface"
    paths = ["/no/where", "./albert_base_v2", "../b", "~/b", "a/b/c", "a/", "a b/c", "é/b", "a/b\n"]
    for name in (*paths, "model.ckpt-best", "albert_base_v2.tar.gz"):
        assert published_format(name) is None
    monkeypatch.chdir(tmp_path)
    for name in names:  # what exists is a path
        (tmp_path / name).mkdir(parents=True)
        assert published_format(name) is None
        for source in SOURCES:
            assert str(local_checkpoint(name, source)[0]) == name.replace("//", "/")
    with pytest.raises(InputError, match=r"^albert_base_v3 .*albert_base_v1.*OWNER/NAME.*https://"):
        local_checkpoint("albert_base_v3", "google")
    for source in ("google", "huggingface", "run"):
        with pytest.raises(InputError, match="revision=v1"):
            local_checkpoint("/a", source, "v1")


def test_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ALBERT_TF_CACHE", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "albert_tf"
    monkeypatch.setenv("ALBERT_TF_CACHE", "~/elsewhere")
    assert cache_folder() == tmp_path / "elsewhere"


def test_google_without_a_network(server, golden, tmp_path, point_to):
    point_to(nobody())
    place = tmp_path / "cache" / "google" / "albert_base_v2.tar.gz"
    with pytest.raises(WorkFailed, match=rf"/albert_models/albert_base_v2\.tar\.gz .* put it at {place}$"):
        convert("google", "run", "albert_base_v2", tmp_path / "run")
    assert list(place.parent.iterdir()) == [] and not (tmp_path / "run").exists()
    place.write_bytes(packed(golden / "tf1" / "shared"))  # as one was told to
    convert("google", "run", "albert_base_v2", tmp_path / "run")


def archive(member, **fields):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        entry = tarfile.TarInfo(member)
        for name, value in fields.items():
            setattr(entry, name, value)
        file.addfile(entry)
    return content.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"noise" * 1000,
        archive("../../escaped"),
        archive("saved_model.pb", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
    ],
    ids=["noise", "leads out", "link"],
)
def test_archives_that_are_none_or_lead_out_of_their_folder(server, tmp_path, content):
    server.answers["/albert/3?tf-hub-format=compressed"] = Answer(content)
    with pytest.raises(InputError, match=r"albert%2F3\.tar\.gz"):
        convert("hub", "run", f"{server.address}/albert/3", tmp_path / "run")
    assert not (tmp_path / "run").exists() and not list(tmp_path.rglob("escaped"))


@pytest.mark.slow
def test_hugging_face_as_its_users_know_it(golden, tmp_path):
    """The command line, with the environment variables that huggingface_hub reads when it is imported."""
    with serve() as server:
        put_repository(server, "tiny/albert", golden / "hf" / "pretraining", revision="v1")
        # Which it would tell.
        server.answers[f"/tiny/albert/resolve/{COMMIT}/model.safetensors"].cuts = [1000]
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
