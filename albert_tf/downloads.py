"""A file from the network, whole or not at all, and where such files are kept."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import BinaryIO

from absl import logging
from tqdm import tqdm

from albert_tf.errors import InputError, WorkFailed
from albert_tf.files import whole_file

# Seconds in which a server must take a connection, and in which something must arrive.
TIMEOUT = 10.0
# How often a download may break off, and how many seconds later it goes on.
_BREAKS, _PAUSE = 5, 1.0
_CHUNK = 1 << 18


def cache_folder() -> Path:
    """Where this package keeps what it downloads and converts: ALBERT_TF_CACHE, or ~/.cache/albert_tf."""
    return Path(os.environ.get("ALBERT_TF_CACHE") or "~/.cache/albert_tf").expanduser().absolute()


def download(address: str, path: Path) -> None:
    """Downloads a file; where it breaks off it goes on, if the server still has the same.

    Args:
      address: of http or https; redirects are followed.
      path: the file to be; its folder is made.
    Raises:
      InputError: the server refuses it (401, 403, 404).
      WorkFailed: the server cannot be reached, or what arrived is not what it says it sent. As always when
        something is raised, nothing is left.
      OSError: the file cannot be written.
    """
    remedy = f"download it elsewhere and put it at {path}"
    logging.info("downloading %s", address)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not at once, so that there is none above the line that a server refuses.
    bar = tqdm(desc=path.name, unit="B", unit_scale=True, file=sys.stderr, disable=None, delay=1)
    with whole_file(path) as temporary, temporary.open("w+b") as file, bar:
        with _opened(address, remedy) as response:
            headers = response.headers
            if headers["Content-Length"] is None:
                raise WorkFailed(f"{address} does not say how long it is (Content-Length): {remedy}")
            bar.total = size = int(headers["Content-Length"])
            _receive(response, file, bar)
        for _ in range(_BREAKS):
            if file.tell() == size:
                break
            time.sleep(_PAUSE)
            with _opened(address, remedy, file.tell(), headers["ETag"]) as response:
                if response.status != http.HTTPStatus.PARTIAL_CONTENT:
                    file.seek(0)
                    file.truncate()
                _receive(response, file, bar)
        problem = _problem(file, size, headers)
        if problem:
            raise WorkFailed(f"{address} did not arrive whole: {problem}. Try again, or {remedy}")


@contextlib.contextmanager
def refusals(address: str, remedy: str) -> Iterator[None]:
    """Has what a server or a network refuses told in one line.

    Args:
      address: what was asked for.
      remedy: what to do without a network.
    """
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        answer = f"status {error.code}, {error.reason}"
        if error.code in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.GONE):
            raise InputError(f"{address} does not exist ({answer}): check the name") from error
        if error.code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise InputError(f"{address} is not open to all ({answer}): {remedy}") from error
        raise WorkFailed(f"{address} cannot be had now ({answer}): try later, or {remedy}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)  # a URLError's is what went wrong
        raise WorkFailed(f"{address} cannot be downloaded ({reason}): {remedy}") from error


def _opened(address: str, remedy: str, start: int = 0, etag: str | None = None) -> http.client.HTTPResponse:
    """The answer to a request, of all that follows a byte if the file is still the one with that ETag."""
    headers = {"Range": f"bytes={start}-", "If-Range": etag} if start and etag else {}
    with refusals(address, remedy):
        return urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=TIMEOUT)


def _receive(response: http.client.HTTPResponse, file: BinaryIO, bar: tqdm) -> None:
    """Writes what arrives until it ends or breaks off."""
    while True:
        try:
            chunk = response.read(_CHUNK)
        except (OSError, http.client.HTTPException):
            return
        if not chunk:
            return
        file.write(chunk)
        bar.update(file.tell() - bar.n)


def _problem(file: BinaryIO, size: int, headers: Message) -> str:
    """What differs between a file and what the server says of it; "" where nothing does.

    Google's servers tell checksums, as base64: `x-goog-hash: crc32c=…,md5=…`.
    """
    if file.tell() != size:
        return f"{file.tell()} of {size} bytes"
    checksums = ",".join(headers.get_all("x-goog-hash", []))
    told = dict(part.strip().partition("=")[::2] for part in checksums.split(","))
    if "md5" not in told:
        return ""
    file.seek(0)
    digest = hashlib.md5(usedforsecurity=False)
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
    there, here = told["md5"], base64.b64encode(digest.digest()).decode()
    return "" if there == here else f"its MD5 is {here}, the server says {there}"
