"""Repositories of Hugging Face by name, through huggingface_hub, with its cache, token and offline mode."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import huggingface_hub as hub
from huggingface_hub import constants, errors, utils

from albert_tf.conversion.downloads import TIMEOUT
from albert_tf.conversion.huggingface import CONFIG, INDEX, TOKENIZER, VOCABULARY, WEIGHTS
from albert_tf.conversion.rebuilt_vocabulary import FAST_TOKENIZER
from albert_tf.utils.errors import InputError, WorkFailed

_NAME = re.compile(r"\w[\w.-]*/[\w.-]*\w", re.ASCII)
_FILES = [CONFIG, WEIGHTS, INDEX, "model-*-of-*.safetensors", VOCABULARY, FAST_TOKENIZER, TOKENIZER]


def is_repository(name: str) -> bool:
    """True if this has the form OWNER/NAME."""
    return _NAME.fullmatch(name) is not None


def repository(name: str, revision: str | None = None) -> Path:
    """Downloads the files of a repository that are read here, unless they are in the cache.

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
        raise _refusal(f"{constants.ENDPOINT}/{name}", revision, outage or error) from error
    if not (folder / CONFIG).exists() or not ((folder / WEIGHTS).exists() or (folder / INDEX).exists()):
        raise InputError(
            f"{constants.ENDPOINT}/{name} has no {CONFIG} or no {WEIGHTS}, and pickles are not read, as they "
            "may run code: name a revision that has them (refs/pr/1, perhaps)"
        )
    return folder


def _refusal(address: str, revision: str, error: Exception) -> InputError | WorkFailed:
    """An error of the server or the network in one line."""
    lines = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    place = f"{address} (revision {revision})"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403, 404) or isinstance(error, errors.HFValidationError):
        return InputError(
            f"{place} cannot be opened ({reason}): check name and revision, or give a token that may read "
            "it, by HF_TOKEN or `hf auth login`"
        )
    return WorkFailed(
        f"{place} cannot be downloaded now ({reason}): try again, or download {CONFIG}, {WEIGHTS}, "
        f"{VOCABULARY} and {TOKENIZER} elsewhere into a folder, and name that to `convert`"
    )
