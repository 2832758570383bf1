"""Published checkpoints by name: what is one, where it is, and its download to this machine."""

from __future__ import annotations

import base64
import hashlib
import http.client
import os
import re
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import huggingface_hub as hub
from absl import logging
from huggingface_hub import constants, errors, utils
from tqdm import tqdm

from albert_tf.config import REPOSITORIES, publisher_of
from albert_tf.conversion.huggingface import (
    HUGGING_FACE_CONFIG,
    HUGGING_FACE_VOCABULARY,
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
)
from albert_tf.conversion.huggingface_tokenizer import ADDED_TOKENS, SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG
from albert_tf.conversion.tokenizer_json import FAST_TOKENIZER
from albert_tf.errors import InputError, WorkFailed
from albert_tf.io import whole_file
from albert_tf.text.tokenizer_config import VOCABULARY_FILES

_ARCHIVES_AT = "https://storage.googleapis.com/albert_models/"

# The files of a repository that are read.
_FILES = [
    *(HUGGING_FACE_CONFIG, WEIGHTS_FILE, WEIGHTS_INDEX_FILE, "model-*-of-*.safetensors"),
    *(FAST_TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS),
    *(name for names in VOCABULARY_FILES.values() for name in names),
]

TIMEOUT = 10.0  # seconds in which a server must take a connection, and in which something must arrive


def cache_folder() -> Path:
    """The folder of downloaded and converted files: ALBERT_TF_CACHE, or ~/.cache/albert_tf."""
    return Path(os.environ.get("ALBERT_TF_CACHE") or "~/.cache/albert_tf").expanduser().absolute()


def local_checkpoint(
    name: str | os.PathLike[str], source: str, revision: str | None = None
) -> tuple[Path, str | None]:
    """A checkpoint by its path or its published name, which is downloaded unless it is here already.

    Whatever exists here is a path.

    Args:
      name: a path; or one of Google's archives ("albert_base_v2"), a repository of Hugging Face
        ("albert/albert-base-v2"; "bert_base_uncased" and the like for the best known), a handle of TF Hub
        ("https://…").
      source: the format: "google", "huggingface", "hub" or "run".
      revision: of a repository of Hugging Face: branch, tag or commit.
    Returns:
      A folder, an archive, or the file with the weights; and the commit of a repository.
    Raises:
      InputError: there is nothing of this name, it needs a token, or has no revisions.
      WorkFailed: it cannot be downloaded; the message says what to download and where to put it.
      OSError: a file cannot be written.
    """
    text = os.fspath(name)
    is_name = publisher_of(text) == source
    if is_name and source == "huggingface":
        folder = repository(REPOSITORIES.get(text, text), revision)
        return folder, folder.name
    if revision is not None:
        raise InputError(f"revision={revision} is of a repository of Hugging Face, which {text} is not")
    if not is_name:
        return Path(text), None
    # A module not by tensorflow_hub, which waits for a silent server for ever.
    address = f"{_ARCHIVES_AT}{text}.tar.gz" if source == "google" else f"{text}?tf-hub-format=compressed"
    path = cache_folder() / source / f"{urllib.parse.quote(text, safe='')}.tar.gz"
    if not path.exists():
        download(address, path)
    return path, None


def download(address: str, path: Path) -> None:
    """Downloads a file, whole or not at all.

    Args:
      address: of http or https; redirects are followed.
      path: the file to write; its folder is made.
    Raises:
      InputError: the server refuses it.
      WorkFailed: the server cannot be reached, or the file did not arrive whole, or as it is there.
      OSError: the file cannot be written.

    Nobody publishes digests of Google's archives and of TF Hub's modules. What arrives must have the MD5 that
    the server sends along, if it does, as Google's storage.
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
            file.flush()
            sent = re.search(r"\bmd5=([^,\s]+)", ",".join(response.headers.get_all("x-goog-hash", [])))
            if sent and sent[1] != base64.b64encode(_digest(temporary, "md5")).decode():
                raise http.client.HTTPException("it differs from its MD5")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        remedy = f"try later, or download it elsewhere and put it at {path}"
        raise _failure(address, error, remedy) from error


def repository(name: str, revision: str | None = None) -> Path:
    """Downloads the files of a repository of Hugging Face that are read here, unless they are in its cache.

    Cache, token and offline mode are those of huggingface_hub. A large file that is downloaded must have the
    SHA-256 that the repository has of it.

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
    blobs = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}", "blobs")
    before = set(blobs.glob("*"))
    outage: Exception | None = None
    try:
        hub.HfApi().model_info(name, revision=revision, timeout=TIMEOUT)  # snapshot_download waits for ever
    except (errors.HTTPError, errors.OfflineModeIsEnabled, errors.HFValidationError) as error:
        outage = error
    try:
        folder = Path(
            hub.snapshot_download(
                name, revision=revision, allow_patterns=_FILES, local_files_only=outage is not None
            )
        )
    # RuntimeError: of the storage called Xet.
    except (errors.HTTPError, OSError, RuntimeError, errors.HFValidationError) as error:
        if getattr(error, "errno", None) is not None:  # a full disk, perhaps
            raise
        remedy = (
            "give a token that may read it, by HF_TOKEN or `hf auth login`, try later, or download "
            f"{HUGGING_FACE_CONFIG}, {WEIGHTS_FILE}, {HUGGING_FACE_VOCABULARY} and {TOKENIZER_CONFIG} "
            "elsewhere into a folder, and name that"
        )
        raise _failure(address, outage or error, remedy) from error
    for blob in set(blobs.glob("*")) - before:  # whose name is its SHA-256, of a small file one of Git's
        if re.fullmatch("[0-9a-f]{64}", blob.name) and _digest(blob, "sha256").hex() != blob.name:
            blob.unlink()
            raise WorkFailed(f"{address}: a file did not arrive as it is there: type the same command again")
    if not (folder / HUGGING_FACE_CONFIG).exists() or not (
        (folder / WEIGHTS_FILE).exists() or (folder / WEIGHTS_INDEX_FILE).exists()
    ):
        raise InputError(
            f"{address} has no {HUGGING_FACE_CONFIG} or no {WEIGHTS_FILE}, and pickles are not read, as they "
            "may run code: name a revision that has them (refs/pr/1, perhaps)"
        )
    return folder


def _digest(path: Path, name: str) -> bytes:
    """The digest of a file, read a part at a time."""
    digest = hashlib.new(name, usedforsecurity=name != "md5")
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _failure(address: str, error: Exception, remedy: str) -> InputError | WorkFailed:
    """An error of the server or the network in one line; an InputError if trying again is of no use."""
    reason = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
    response = getattr(error, "response", None)
    status = getattr(error, "code", None) or getattr(response, "status_code", None)
    if status in (401, 403, 404, 410) or isinstance(error, errors.HFValidationError):
        return InputError(f"{address} is not there or not open ({reason}): check the name, or {remedy}")
    return WorkFailed(f"{address} cannot be downloaded now ({reason}): {remedy}")
