"""Files from the network, and the cache that they are kept in."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import BinaryIO

from absl import logging
from tqdm import tqdm

from albert_tf.utils.errors import InputError, WorkFailed
from albert_tf.utils.files import whole_file

TIMEOUT = 10.0  # seconds in which a server must take a connection, and in which something must arrive
_CHUNK = 1 << 18


def cache_folder() -> Path:
    """The folder of downloaded and converted files: ALBERT_TF_CACHE, or ~/.cache/albert_tf."""
    return Path(os.environ.get("ALBERT_TF_CACHE") or "~/.cache/albert_tf").expanduser().absolute()


def download(address: str, path: Path) -> None:
    """Downloads a file, whole or not at all.

    Args:
      address: of http or https; redirects are followed.
      path: the file to write; its folder is made.
    Raises:
      InputError: the server refuses it (401, 403, 404).
      WorkFailed: the server cannot be reached, or the file did not arrive whole.
      OSError: the file cannot be written.
    """
    remedy = f"download it elsewhere and put it at {path}"
    logging.info("downloading %s", address)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        response = urllib.request.urlopen(address, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        answer = f"status {error.code}, {error.reason}"
        if error.code in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.GONE):
            raise InputError(f"{address} does not exist ({answer}): check the name") from error
        if error.code in (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN):
            raise InputError(f"{address} is not open to all ({answer}): {remedy}") from error
        raise WorkFailed(f"{address} cannot be had now ({answer}): try later, or {remedy}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)  # of a URLError
        raise WorkFailed(f"{address} cannot be downloaded ({reason}): {remedy}") from error
    with response, whole_file(path) as temporary, temporary.open("wb") as file:
        if problem := _receive(response, file, path.name):
            raise WorkFailed(f"{address} did not arrive whole: {problem}. Try again, or {remedy}")


def _receive(response: http.client.HTTPResponse, file: BinaryIO, name: str) -> str:
    """Writes an answer to a file; returns what differs from what the server says of it, "" for nothing.

    Google's servers send checksums as base64, `x-goog-hash: crc32c=…,md5=…`.
    """
    if response.headers["Content-Length"] is None:
        return "the server does not say how long it is (Content-Length)"
    size, digest = int(response.headers["Content-Length"]), hashlib.md5(usedforsecurity=False)
    with tqdm(desc=name, total=size, unit="B", unit_scale=True, file=sys.stderr, disable=None) as bar:
        while True:
            try:
                chunk = response.read(_CHUNK)
            except (OSError, http.client.HTTPException):
                chunk = b""
            if not chunk:
                break
            file.write(chunk)
            digest.update(chunk)
            bar.update(len(chunk))
    if file.tell() != size:
        return f"{file.tell()} of {size} bytes"
    checksums = ",".join(response.headers.get_all("x-goog-hash", []))
    expected = dict(part.strip().partition("=")[::2] for part in checksums.split(",")).get("md5")
    found = base64.b64encode(digest.digest()).decode()
    return "" if expected in (None, found) else f"its MD5 is {found}, the server says {expected}"
