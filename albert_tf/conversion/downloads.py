"""Files from the network, and the cache that they are kept in."""

from __future__ import annotations

import http.client
import os
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path

from absl import logging
from tqdm import tqdm

from albert_tf.utils.errors import InputError, WorkFailed
from albert_tf.utils.files import whole_file

TIMEOUT = 10.0  # seconds in which a server must take a connection, and in which something must arrive


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
    remedy = f"try later, or download it elsewhere and put it at {path}"
    logging.info("downloading %s", address)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            urllib.request.urlopen(address, timeout=TIMEOUT) as response,
            whole_file(path) as temporary,
            temporary.open("wb") as file,
        ):
            size = response.length
            bar = {"desc": path.name, "total": size, "file": sys.stderr, "disable": None}
            with tqdm.wrapattr(file, "write", **bar) as out:
                shutil.copyfileobj(response, out)
            if size is not None and file.tell() != size:
                raise http.client.IncompleteRead(b"", size - file.tell())
    except urllib.error.HTTPError as error:
        if error.code in (401, 403, 404, 410):
            raise InputError(
                f"{address} is not there or not open (status {error.code}): check the name, or {remedy}"
            ) from error
        raise WorkFailed(f"{address} cannot be had now (status {error.code}): {remedy}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise WorkFailed(f"{address} did not arrive ({error}): {remedy}") from error
