"""Downloads: a file of any server, or the files of a repository of Hugging Face."""

from __future__ import annotations

import http.client
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path

import huggingface_hub as hub
from absl import logging
from huggingface_hub import constants, errors, utils
from tqdm import tqdm

from albert_tf.conversion.huggingface import CONFIG, INDEX, TOKENIZER, VOCABULARY, WEIGHTS
from albert_tf.conversion.rebuilt_vocabulary import FAST_TOKENIZER
from albert_tf.utils.errors import InputError, WorkFailed
from albert_tf.utils.files import whole_file

TIMEOUT = 10.0  # seconds in which a server must take a connection, and in which something must arrive

_REFUSALS = (401, 403, 404, 410)  # statuses that mean that trying again is of no use
_FILES = [CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", VOCABULARY, FAST_TOKENIZER, TOKENIZER]


def download(address: str, path: Path) -> None:
    """Downloads a file, whole or not at all.

    Args:
      address: of http or https; redirects are followed.
      path: the file to write; its folder is made.
    Raises:
      InputError: the server refuses it.
      WorkFailed: the server cannot be reached, or the file did not arrive whole.
      OSError: the file cannot be written.
    """
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
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        remedy = f"try later, or download it elsewhere and put it at {path}"
        raise _failure(address, getattr(error, "code", None), error, remedy) from error


def repository(name: str, revision: str | None = None) -> Path:
    """Downloads the files of a repository of Hugging Face that are read here, unless they are in its cache.

    Cache, token and offline mode are those of huggingface_hub.

    Args:
      name: OWNER/NAME.
      revision: branch, tag or commit; None: main.
    Returns:
      Their folder, in the cache of huggingface_hub, named after the commit.
    Raises:
      InputError: there is no such repository or revision, it needs a token, or holds no safetensors.
      WorkFailed: the server cannot be reached and the cache lacks a file, or a download broke off.
    """
    if not sys.stderr.isatty():
        utils.disable_progress_bars()
    revision = revision or constants.DEFAULT_REVISION
    address = f"{constants.ENDPOINT}/{name} (revision {revision})"
    outage: Exception | None = None
    try:
        hub.HfApi().model_info(name, revision=revision, timeout=TIMEOUT)  # snapshot_download waits for ever
    except (errors.HTTPError, errors.OfflineModeIsEnabled, errors.HFValidationError) as error:
        outage = error
    try:
        is_out = outage is not None
        folder = Path(
            hub.snapshot_download(name, revision=revision, allow_patterns=_FILES, local_files_only=is_out)
        )
    # RuntimeError: of the storage called Xet.
    except (errors.HTTPError, OSError, RuntimeError, errors.HFValidationError) as error:
        if getattr(error, "errno", None) is not None:  # a full disk, perhaps
            raise
        cause = outage or error
        status = getattr(getattr(cause, "response", None), "status_code", None)
        if isinstance(cause, errors.HFValidationError):
            status = 404
        remedy = (
            "give a token that may read it, by HF_TOKEN or `hf auth login`, try later, or download "
            f"{CONFIG}, {WEIGHTS}, {VOCABULARY} and {TOKENIZER} elsewhere into a folder, and name that"
        )
        raise _failure(address, status, cause, remedy) from error
    if not (folder / CONFIG).exists() or not ((folder / WEIGHTS).exists() or (folder / INDEX).exists()):
        raise InputError(
            f"{address} has no {CONFIG} or no {WEIGHTS}, and pickles are not read, as they may run code: "
            "name a revision that has them (refs/pr/1, perhaps)"
        )
    return folder


def _failure(address: str, status: int | None, error: Exception, remedy: str) -> InputError | WorkFailed:
    """An error of the server or the network in one line."""
    reason = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
    if status in _REFUSALS:
        return InputError(f"{address} is not there or not open ({reason}): check the name, or {remedy}")
    return WorkFailed(f"{address} cannot be downloaded now ({reason}): {remedy}")
