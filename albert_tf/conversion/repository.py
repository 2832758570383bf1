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
_TOKEN = "HF_TOKEN or `hf auth login`"


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
    address = f"{constants.ENDPOINT}/{name}"
    if not sys.stderr.isatty():
        utils.disable_progress_bars()
    outage: BaseException | None = None
    try:
        try:
            hub.HfApi().model_info(
                name, revision=revision, timeout=TIMEOUT
            )  # snapshot_download waits for ever
        except errors.HfHubHTTPError:
            pass  # which snapshot_download raises, too, unless the files are in the cache
        except (errors.HTTPError, errors.OfflineModeIsEnabled) as error:
            outage = error
        folder = Path(
            hub.snapshot_download(
                name, revision=revision, allow_patterns=_FILES, local_files_only=outage is not None
            )
        )
    except errors.HFValidationError as error:
        raise InputError(f"{name} is neither a path here nor a name at Hugging Face: {error}") from error
    except (errors.HTTPError, OSError, RuntimeError) as error:  # RuntimeError: of the storage called Xet
        if getattr(error, "errno", None) is not None:  # a full disk, perhaps
            raise
        raise _refusal(name, address, revision or constants.DEFAULT_REVISION, outage or error) from error
    if not (folder / CONFIG).exists():
        raise InputError(f"{address} has no {CONFIG}: name a repository with a model")
    if not (folder / WEIGHTS).exists() and not (folder / INDEX).exists():
        raise InputError(
            f"{address} has no {WEIGHTS}, and pickles are not read, as they may run code: "
            f"name a revision that has it (refs/pr/1, perhaps), or let transformers write it: "
            f"from_pretrained(…).save_pretrained(…)"
        )
    return folder


def _refusal(name: str, address: str, revision: str, error: BaseException) -> InputError | WorkFailed:
    """An error of the server or the network in one line."""
    cause = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else None
    if isinstance(cause, errors.HfHubHTTPError):
        error = cause
    if isinstance(error, errors.GatedRepoError):
        return InputError(f"{address} is gated: ask for access there, and give a token by {_TOKEN}")
    if isinstance(error, errors.RevisionNotFoundError):
        return InputError(f"{address} has no revision {revision}: name a branch, tag or commit")
    if isinstance(error, errors.RepositoryNotFoundError):
        return InputError(
            f"{name} is neither a path here nor a repository of {constants.ENDPOINT}: check the name; a "
            f"private one needs a token, by {_TOKEN}"
        )
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        status = error.response.status_code
        return InputError(f"{address} refuses the token (status {status}): give another by {_TOKEN}")
    reason = (str(cause or error).strip().splitlines() or [type(error).__name__])[0]
    return WorkFailed(
        f"{address} cannot be downloaded now ({reason}): try again, or download {CONFIG}, {WEIGHTS}, "
        f"{VOCABULARY} and {TOKENIZER} elsewhere into a folder, and name that folder to "
        "`albert-tf convert --from huggingface`"
    )
