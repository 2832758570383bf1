"""Repositories of Hugging Face by name, through huggingface_hub, with its cache, token and offline mode."""

from __future__ import annotations

import re
from pathlib import Path

import huggingface_hub as hub
from huggingface_hub import constants, errors

from albert_tf.errors import InputError, WorkFailed
from albert_tf.formats.huggingface import CONFIG, INDEX, TOKENIZER, VOCABULARY, WEIGHTS
from albert_tf.formats.rebuilt_vocabulary import FAST_TOKENIZER
from albert_tf.formats.safetensors import part_names

_NAME = re.compile(r"\w[\w.-]*/[\w.-]*\w", re.ASCII)
_TOKEN = "HF_TOKEN or `hf auth login`"


def is_repository(name: str) -> bool:
    """Whether this has the form OWNER/NAME."""
    return _NAME.fullmatch(name) is not None


def repository(name: str, revision: str | None = None) -> Path:
    """The files of a repository that are read here, of one commit; what the cache has is not loaded again.

    Args:
      name: OWNER/NAME.
      revision: branch, tag or commit; None: main.
    Returns:
      Their folder, in the cache of huggingface_hub, named after the commit.
    Raises:
      InputError: there is no such repository or revision, it needs a token, or holds no safetensors.
      WorkFailed: the server cannot be asked and the cache lacks a file, or a download broke off.
    """
    files = _Files(name, revision or constants.DEFAULT_REVISION)
    config = files.find(CONFIG)
    if config is None:
        raise InputError(f"{_address(name)} has no {CONFIG}: name a repository with a model")
    if files.find(WEIGHTS) is None:
        index = files.find(INDEX)
        if index is None:
            raise InputError(
                f"{_address(name)} has no {WEIGHTS}, and pickles are not read, as they may run code: "
                f"name a revision that has it (refs/pr/1, perhaps), or let transformers write it: "
                f"from_pretrained(…).save_pretrained(…)"
            )
        for part in part_names(index):
            files.find(part)
    if files.find(VOCABULARY) is None:
        files.find(FAST_TOKENIZER)
    files.find(TOKENIZER)
    return config.parent


class _Files:
    """The files of a repository, from the server or, where it cannot be asked, from the cache.

    Args:
      name: OWNER/NAME.
      revision: branch, tag or commit.
    """

    def __init__(self, name: str, revision: str):
        self._name = name
        self._revision = revision
        self._outage = ""  # why the server cannot be asked
        try:
            # Once: hf_hub_download asks a server that does not answer for minutes.
            hub.get_hf_file_metadata(hub.hf_hub_url(name, CONFIG, revision=revision))
        except errors.RemoteEntryNotFoundError:
            pass
        except errors.OfflineModeIsEnabled:
            self._outage = "HF_HUB_OFFLINE is set"
        except errors.HTTPError as error:
            refusal = _refusal(name, revision, error)
            if isinstance(refusal, InputError):
                raise refusal from error
            self._outage = _line(error)
        except errors.HFValidationError as error:
            raise InputError(f"{name} is neither a path here nor a name at Hugging Face: {error}") from error

    def find(self, file: str) -> Path | None:
        """A file, of the same commit as the one before; None where the repository has none of this name."""
        if self._outage:
            cached = hub.try_to_load_from_cache(self._name, file, revision=self._revision)
            if cached is None:
                raise WorkFailed(_unreachable(self._name, self._revision, self._outage))
            return Path(cached) if isinstance(cached, str) else None  # else it is known not to exist
        try:
            path = Path(hub.hf_hub_download(self._name, file, revision=self._revision))
        except errors.RemoteEntryNotFoundError:
            return None
        except errors.LocalEntryNotFoundError as error:  # the server has vanished meanwhile
            reason = _line(error.__cause__ or error)
            raise WorkFailed(_unreachable(self._name, self._revision, reason)) from error
        except (errors.HTTPError, OSError, RuntimeError) as error:  # the last is of storage that it calls Xet
            if getattr(error, "errno", None) is not None:  # a disk that is full, perhaps
                raise
            raise _refusal(self._name, self._revision, error) from error
        self._revision = path.parent.name
        return path


def _refusal(name: str, revision: str, error: Exception) -> InputError | WorkFailed:
    """What an error of the server or the network says to those who know the name only."""
    where = _address(name)
    if isinstance(error, errors.GatedRepoError):
        return InputError(f"{where} is gated: ask for access there, and give a token by {_TOKEN}")
    if isinstance(error, errors.RevisionNotFoundError):
        return InputError(f"{where} has no revision {revision}: name a branch, tag or commit")
    if isinstance(error, errors.RepositoryNotFoundError):
        return InputError(
            f"{name} is neither a path here nor a repository of {constants.ENDPOINT}: check the name; a "
            f"private one needs a token, by {_TOKEN}"
        )
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in (401, 403):
        status = error.response.status_code
        return InputError(f"{where} refuses the token (status {status}): give another by {_TOKEN}")
    remedy = (
        "try again, perhaps with HF_HUB_DISABLE_XET=1" if isinstance(error, RuntimeError) else "try again"
    )
    return WorkFailed(f"{where} cannot be downloaded now ({_line(error)}): {remedy}")


def _unreachable(name: str, revision: str, reason: str) -> str:
    return (
        f"{name} is not a path here, revision {revision} is not whole in {constants.HF_HUB_CACHE}, and "
        f"{constants.ENDPOINT} cannot be asked ({reason}): download {CONFIG}, {WEIGHTS}, {VOCABULARY} and "
        f"{TOKENIZER} of {_address(name)} elsewhere into a folder, and name that folder to "
        "`albert-tf convert --from huggingface`"
    )


def _address(name: str) -> str:
    return f"{constants.ENDPOINT}/{name}"


def _line(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
