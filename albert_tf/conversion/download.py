"""Downloads published checkpoints by their names."""

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

from albert_tf.config import REPOSITORIES, published_format
from albert_tf.conversion.huggingface import (
    HUGGING_FACE_CONFIG,
    HUGGING_FACE_VOCABULARY,
    MODULES_FILE,
    POOLING_FILE,
    SENTENCE_LENGTH_FILE,
    WEIGHTS_FILE,
    WEIGHTS_INDEX_FILE,
)
from albert_tf.conversion.huggingface_tokenizer import ADDED_TOKENS, SPECIAL_TOKENS_MAP, TOKENIZER_CONFIG
from albert_tf.conversion.tokenizer_json import FAST_TOKENIZER
from albert_tf.errors import InputError, WorkFailed
from albert_tf.io import address_of, atomic_file
from albert_tf.text.tokenizer_config import VOCABULARY_FILES

_ARCHIVES_URL = "https://storage.googleapis.com/albert_models/"

# Files of a repository to download.
_FILES = [
    *(HUGGING_FACE_CONFIG, WEIGHTS_FILE, WEIGHTS_INDEX_FILE, "model-*-of-*.safetensors"),
    *(POOLING_FILE, MODULES_FILE, SENTENCE_LENGTH_FILE),
    *(FAST_TOKENIZER, TOKENIZER_CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS),
    *(name for names in VOCABULARY_FILES.values() for name in names),
]

TIMEOUT = 10.0  # seconds to wait for a connection, and for the next bytes


def cache_folder() -> Path:
    """The folder of downloaded and converted files: ALBERT_TF_CACHE, or ~/.cache/albert_tf."""
    return Path(os.environ.get("ALBERT_TF_CACHE") or "~/.cache/albert_tf").expanduser().absolute()


def local_checkpoint(
    name: str | os.PathLike[str], source: str, revision: str | None = None
) -> tuple[Path, str | None]:
    """Finds a checkpoint by its path or its published name. A published one is downloaded once.

    Args:
      name: a path; or a published name: an archive of Google ("albert_base_v2"), a repository of Hugging Face
        ("albert/albert-base-v2"; also a preset such as "bert_base_uncased"), a TF Hub handle ("https://…").
        An existing path takes precedence.
      source: format of the checkpoint: "google", "huggingface", "hub" or "run".
      revision: branch, tag or commit of a repository of Hugging Face. None: main.
    Returns:
      The path of a folder, an archive, or a file with weights; and the commit of a repository, else None.
    Raises:
      InputError: nothing has this name, it needs a token, or it has no revisions.
      WorkFailed: the download failed; the message names a file to download and a place to put it.
      OSError: a file cannot be written.
    """
    text = os.fspath(name)
    is_name = published_format(text) == source
    if is_name and source == "huggingface":
        folder = download_repository(REPOSITORIES.get(text, text), revision)
        return folder, folder.name
    if revision is not None:
        raise InputError(f"revision={revision} is of a repository of Hugging Face, which {text} is not")
    if not is_name:
        if (address := address_of(text)) is not None and not Path(text).exists():
            raise InputError(f"{address} is not on this machine: copy it here, and name the copy")
        return Path(text), None
    # Without tensorflow_hub, which has no timeout.
    address = f"{_ARCHIVES_URL}{text}.tar.gz" if source == "google" else f"{text}?tf-hub-format=compressed"
    path = cache_folder() / source / f"{urllib.parse.quote(text, safe='')}.tar.gz"
    if not path.exists():
        download_file(address, path)
    return path, None


def download_file(address: str, path: Path) -> None:
    """Downloads a file. The file appears whole or not at all.

    Nobody publishes digests of Google's archives and of TF Hub's modules. Google's storage sends an MD5 with
    the file; if there is one, it is checked.

    Args:
      address: URL, http or https; redirects are followed.
      path: the file to write; its folder is made.
    Raises:
      InputError: the server refuses the request.
      WorkFailed: the server cannot be reached, or the file is incomplete or differs from its MD5.
      OSError: the file cannot be written.
    """
    logging.info("downloading %s", address)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            urllib.request.urlopen(address, timeout=TIMEOUT) as response,
            atomic_file(path) as temporary,
            temporary.open("wb") as file,
        ):
            size = response.length
            bar = {"desc": path.name, "total": size, "file": sys.stderr, "disable": None}
            with tqdm.wrapattr(file, "write", **bar) as out:
                shutil.copyfileobj(response, out)
            if size is not None and file.tell() != size:
                raise http.client.IncompleteRead(b"", size - file.tell())
            file.flush()
            md5 = re.search(r"\bmd5=([^,\s]+)", ",".join(response.headers.get_all("x-goog-hash", [])))
            if md5 and md5[1] != base64.b64encode(_file_digest(temporary, "md5")).decode():
                raise http.client.HTTPException("it differs from its MD5")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        remedy = f"try later, or download it elsewhere and put it at {path}"
        raise _download_error(address, error, remedy) from error


def download_repository(name: str, revision: str | None = None) -> Path:
    """Downloads the config, weights and tokenizer of a repository of Hugging Face, unless they are cached.

    huggingface_hub does the download, with its cache, token and offline mode. Large files are compared with
    the SHA-256 in the repository.

    Args:
      name: OWNER/NAME.
      revision: branch, tag or commit. None: main.
    Returns:
      The folder of the files in the cache of huggingface_hub. Its name is the commit.
    Raises:
      InputError: the repository or revision does not exist, needs a token, or has no safetensors.
      WorkFailed: the server cannot be reached and a file is not cached, or a download broke off.
    """
    if not sys.stderr.isatty():
        utils.disable_progress_bars()
    revision = revision or constants.DEFAULT_REVISION
    address = f"{constants.ENDPOINT}/{name} (revision {revision})"
    blobs = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}", "blobs")
    before = set(blobs.glob("*"))
    outage: Exception | None = None
    try:
        hub.HfApi().model_info(name, revision=revision, timeout=TIMEOUT)  # snapshot_download has no timeout
    except (errors.HTTPError, errors.OfflineModeIsEnabled, errors.HFValidationError) as error:
        outage = error
    try:
        folder = Path(
            hub.snapshot_download(
                name, revision=revision, allow_patterns=_FILES, local_files_only=outage is not None
            )
        )
    # RuntimeError: Xet, the storage of large files, raises it.
    except (errors.HTTPError, OSError, RuntimeError, errors.HFValidationError) as error:
        if getattr(error, "errno", None) is not None:  # a full disk, perhaps
            raise
        remedy = (
            "give a token that may read it, by HF_TOKEN or `hf auth login`, try later, or download "
            f"{HUGGING_FACE_CONFIG}, {WEIGHTS_FILE}, {HUGGING_FACE_VOCABULARY} and {TOKENIZER_CONFIG} "
            "elsewhere into a folder, and name that"
        )
        raise _download_error(f"{name} is no folder here, and {address}", outage or error, remedy) from error
    # A large file's name is its SHA-256, a small file's is Git's shorter hash.
    for blob in set(blobs.glob("*")) - before:
        if re.fullmatch("[0-9a-f]{64}", blob.name) and _file_digest(blob, "sha256").hex() != blob.name:
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


def _file_digest(path: Path, name: str) -> bytes:
    """The digest of a file, which may be larger than the memory."""
    digest = hashlib.new(name, usedforsecurity=name != "md5")
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.digest()


def _download_error(address: str, error: Exception, remedy: str) -> InputError | WorkFailed:
    """A one-line error for an error of the server or network; an InputError if another try would not help."""
    reason = ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])
    response = getattr(error, "response", None)
    status = getattr(error, "code", None) or getattr(response, "status_code", None)
    if status in (401, 403, 404, 410) or isinstance(error, errors.HFValidationError):
        return InputError(f"{address} is not there or not open ({reason}): check the name, or {remedy}")
    return WorkFailed(f"{address} cannot be downloaded now ({reason}): {remedy}")
