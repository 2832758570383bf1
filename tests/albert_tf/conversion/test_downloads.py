"""Downloads over loopback: whole, or one line and nothing left."""

import base64
import errno
import hashlib
import time

import numpy as np
import pytest

from albert_tf.conversion import downloads
from albert_tf.conversion.downloads import cache_folder, download
from albert_tf.utils.errors import InputError, WorkFailed
from tests.albert_tf.conversion.loopback import Answer, nobody, serve, silence
from tests.full_disk import no_file_beyond

CONTENT = np.random.default_rng(0).bytes(300_000)


def md5(content):
    return base64.b64encode(hashlib.md5(content).digest()).decode()


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with serve() as server:
        yield server


def refused(error, server, tmp_path, match, address=None):
    """Asserts that a download ends in an error of one line, and leaves nothing."""
    with pytest.raises(error, match=match) as caught:
        download(address or f"{server.address}/file", tmp_path / "folder" / "file")
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "folder").iterdir()) == []
    return str(caught.value)


@pytest.mark.parametrize("status", [301, 302, 307])
def test_redirects_are_followed_and_folders_made(server, tmp_path, status):
    server.answers["/file"] = Answer(status=status, headers={"Location": f"{server.address}/elsewhere"})
    server.answers["/elsewhere"] = Answer(
        CONTENT, headers={"x-goog-hash": f"crc32c=n03x6A==,md5={md5(CONTENT)}"}
    )
    download(f"{server.address}/file", tmp_path / "new" / "folder" / "file")
    assert (tmp_path / "new" / "folder" / "file").read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / "new" / "folder").iterdir()] == ["file"]


def test_what_breaks_off(server, tmp_path):
    server.answers["/file"] = Answer(CONTENT, cuts=[1000])
    refused(WorkFailed, server, tmp_path, r"1000 of 300000 bytes.*put it at .*file")


def test_a_checksum_that_differs(server, tmp_path):
    server.answers["/file"] = Answer(CONTENT, headers={"x-goog-hash": f"md5={md5(b'another')}"})
    message = refused(WorkFailed, server, tmp_path, "did not arrive whole: its MD5 is")
    assert md5(CONTENT) in message and md5(b"another") in message


def test_a_length_that_is_not_told(server, tmp_path):
    server.answers["/file"] = Answer(CONTENT, tells_length=False)
    refused(WorkFailed, server, tmp_path, "Content-Length")


@pytest.mark.parametrize(
    ("status", "error", "match"),
    [
        (404, InputError, r"/file does not exist \(status 404, Not Found\): check the name"),
        (401, InputError, r"/file is not open to all \(status 401, .*put it at .*file"),
        (403, InputError, r"is not open to all \(status 403"),
        (503, WorkFailed, r"cannot be had now \(status 503.*try later"),
    ],
)
def test_what_a_server_refuses(server, tmp_path, status, error, match):
    server.answers["/file"] = Answer(status=status)
    refused(error, server, tmp_path, match)
    assert len(server.requests) == 1


def test_without_a_network(server, tmp_path):
    started = time.monotonic()
    message = refused(
        WorkFailed, server, tmp_path, r"cannot be downloaded \(.*refused", address=f"{nobody()}/file"
    )
    assert message.endswith(f"download it elsewhere and put it at {tmp_path / 'folder' / 'file'}")
    assert time.monotonic() - started < 5


def test_a_server_that_says_nothing(server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
    with silence() as address:
        refused(WorkFailed, server, tmp_path, "timed out", address=f"{address}/file")


def test_a_full_disk(server, tmp_path):
    server.answers["/file"] = Answer(CONTENT)
    with pytest.raises(OSError) as caught, no_file_beyond(100_000):
        download(f"{server.address}/file", tmp_path / "file")
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


def test_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ALBERT_TF_CACHE", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "albert_tf"
    monkeypatch.setenv("ALBERT_TF_CACHE", "~/elsewhere")
    assert cache_folder() == tmp_path / "elsewhere"
