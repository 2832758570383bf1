"""Downloads over loopback: whole, or one line and nothing left."""

import errno

import numpy as np
import pytest

from albert_tf.conversion import downloads
from albert_tf.conversion.downloads import download
from albert_tf.utils.errors import InputError, WorkFailed
from tests.albert_tf.conversion.loopback import Answer, nobody, serve, silence
from tests.full_disk import no_file_beyond

CONTENT = np.random.default_rng(0).bytes(300_000)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with serve() as server:
        yield server


def test_redirects_are_followed_and_folders_made(server, tmp_path):
    server.answers["/file"] = Answer(status=302, headers={"Location": f"{server.address}/elsewhere"})
    server.answers["/elsewhere"] = Answer(CONTENT)
    download(f"{server.address}/file", tmp_path / "new" / "folder" / "file")
    assert (tmp_path / "new" / "folder" / "file").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["file"]


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
    monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
    with silence() as silent:
        address = {"refuses": nobody(), "says nothing": silent}.get(str(answer), server.address)
        if isinstance(answer, Answer):
            server.answers["/file"] = answer
        with pytest.raises(error, match=f"{address}/file") as caught:
            download(f"{address}/file", tmp_path / "folder" / "file")
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(f"put it at {tmp_path / 'folder' / 'file'}")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_full_disk(server, tmp_path):
    server.answers["/file"] = Answer(CONTENT)
    with pytest.raises(OSError) as caught, no_file_beyond(100_000):
        download(f"{server.address}/file", tmp_path / "file")
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []
