"""A server on loopback that gives what a test says, as the test says, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import io
import json
import socket
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from huggingface_hub import constants

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Answer:
    """What is given for a path; `cuts` says for each request after how many bytes the connection ends."""

    content: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)


class Request(NamedTuple):
    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Server:
    address: str
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def asked(self, method: str) -> list[str]:
        """The last parts of the paths of the requests of a kind."""
        return [path.rpartition("/")[2] for how, path, _ in self.requests if how == method]


@contextlib.contextmanager
def serve() -> Iterator[Server]:
    """A server while the block lasts; it gives 404 for what it has no answer for."""

    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if not self.path.startswith("/api/"):  # what huggingface_hub asks on its own account
                served.requests.append(Request(self.command, self.path, dict(self.headers)))
            answer = served.answers.get(self.path, Answer(status=404))
            start, status = 0, answer.status
            if "Range" in self.headers:
                start, status = int(self.headers["Range"].removeprefix("bytes=").rstrip("-")), 206
            content = answer.content[start:]
            self.send_response(status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command == "GET":
                cut = answer.cuts.pop(0) if answer.cuts else len(content)
                self.wfile.write(content[:cut])
                self.close_connection |= cut < len(content)

        do_HEAD = do_GET

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served = Server(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join(10)


def nobody() -> str:
    """An address on loopback where nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@contextlib.contextmanager
def silence() -> Iterator[str]:
    """An address that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def put_repository(
    server: Server, name: str, folder: Path, revision: str = "main", commit: str = COMMIT
) -> None:
    """Has a server give the files of a folder as a repository of Hugging Face."""
    tree = []
    for path in folder.iterdir():
        content = path.read_bytes()
        etag = hashlib.sha1(content).hexdigest()
        tree.append({"type": "file", "path": path.name, "size": len(content), "oid": etag})
        server.answers[f"/{name}/resolve/{commit}/{path.name}"] = Answer(
            content, headers={"ETag": f'"{etag}"', "X-Repo-Commit": commit}
        )
    for place in (revision, commit):
        server.answers[f"/api/models/{name}/revision/{place}"] = _json({"id": name, "sha": commit})
    for options in ("recursive=true&expand=false", "recursive=True&expand=False"):
        server.answers[f"/api/models/{name}/tree/{commit}?{options}"] = _json(tree)


def _json(value: object) -> Answer:
    return Answer(json.dumps(value).encode(), headers={"Content-Type": "application/json"})


def instead_of_hugging_face(address: str, home: Path, monkeypatch) -> None:
    """What HF_ENDPOINT and HF_HOME do before huggingface_hub is imported; without a token."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", str(home / "agents"), raising=False)


def packed(folder: Path, inside: str = "") -> bytes:
    """A .tar.gz of what is in a folder."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, f"{inside}{path.name}")
    return content.getvalue()
