"""Files of this machine: atomic writes, JSON, CSV. TensorFlow is not imported."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import errno
import fcntl
import glob
import json
import math
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from absl import logging

from albert_tf.errors import (
    InputError,
    WorkFailed,
    already_exists_error,
    check_json,
    shorten,
    system_error,
)

PathLike = str | os.PathLike[str]

_ABANDONED = 24 * 3600  # seconds; older temporary folders are removed
_RENAME_EXCHANGE = 2  # of linux/fs.h
_LONGEST_NAME = 220  # bytes; filesystems take 255, and names of temporary files are longer
_LONGEST_PATH = 3800  # bytes; the system takes 4096
_WITHOUT_HOST = ("file",)  # schemes whose addresses begin with the path
_SCHEME = re.compile(r"([A-Za-z][\w+.-]+):/+")


def check_path(path: Any, argument: str) -> Path:
    """A user's path as a Path. Raises InputError, with the argument's name, if it is no path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InputError(f"{argument}={shorten(path)} is not a path")
    check_encodable(path)
    return Path(path)


def check_encodable(path: str | os.PathLike[str]) -> None:
    """Raises InputError for a name that is not UTF-8, since TensorFlow takes no other."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{os.fspath(path)!a} is a name that is not UTF-8: rename it") from None


@contextlib.contextmanager
def reraise_with_path(path: Path, temporary: Path) -> Iterator[None]:
    """Re-raises OSErrors about a temporary file or folder with the path that the user knows."""
    try:
        yield
    except OSError as error:  # an error of `write` names no file
        names = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if name is not None]
        if error.errno is None or not (names == [] or any(name.is_relative_to(temporary) for name in names)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    except Exception as error:  # TensorFlow's errors are no OSErrors
        reason = system_error(error)
        if reason is None or str(temporary) not in str(reason.filename):
            raise
        raise OSError(reason.errno, reason.strerror, str(path)) from error


def address_of(path: str | os.PathLike[str]) -> str | None:
    """A path on another filesystem, such as gs://bucket, as text; None for a path of this machine.

    >>> address_of(Path("gs://bucket/run"))  # pathlib makes one slash of two
    'gs://bucket/run'
    """
    text = os.fspath(path)
    match = _SCHEME.match(text)
    if match is None:
        return None
    is_path = match[1] in _WITHOUT_HOST or match[0].endswith(":///")
    return f"{match[1]}://{'/' * is_path}{text[match.end() :]}"


def check_output_path(path: Path, *, is_folder: bool) -> None:
    """Checks that a local file or folder can be written at a path, before work is done for it.

    Args:
      path: the path. It may exist.
      is_folder: True for a folder, False for a file.
    Raises:
      OSError: a file is where a folder is needed or vice versa, a name is too long, or a folder read-only.
      InputError: the path is an address such as gs://bucket, which would become a local folder `gs:`.
    """
    check_encodable(path)
    if address := address_of(path):
        raise InputError(f"{address} is not on this machine: name a local path, and copy from there")
    try:
        whole = path.absolute() if is_folder else Path(os.path.realpath(path))  # a link to a file is followed
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: the working folder is gone: go into another one") from error
    existing = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    names = (whole.name, *whole.relative_to(existing).parts)
    longest = max(len(os.fsencode(name)) for name in names)
    if longest > _LONGEST_NAME or len(os.fsencode(whole)) > _LONGEST_PATH:
        reason = f"File name too long ({longest} bytes, {_LONGEST_NAME} at most)"
        raise OSError(errno.ENAMETOOLONG, reason, str(path))
    if existing != whole and not existing.is_dir():
        reason = f"cannot be written ({existing} is not a folder): name another place"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(path))
    if existing == whole and not (whole.is_dir() if is_folder else whole.is_file()):
        raise FileExistsError(f"{path} is not a {'folder' if is_folder else 'file'}: name another place")
    # A temporary folder is made in an existing folder, a temporary file beside an existing file.
    folder = existing.parent if existing == whole and not is_folder else existing
    if not os.access(folder, os.W_OK | os.X_OK):
        reason = f"cannot be written (the folder {folder} is read-only): name another place"
        raise PermissionError(errno.EACCES, reason, str(path))
    if not is_folder and path.is_symlink() and not whole.parent.is_dir():
        raise FileNotFoundError(f"{path} is a link to {whole}, whose folder is missing: name another place")


def check_exists(path: PathLike, problem: str) -> None:
    """Raises FileNotFoundError with the problem if a path of this machine does not exist."""
    if address_of(path) is None and not path_exists(path):
        raise FileNotFoundError(f"{os.fspath(path)}: {problem}")


def check_new_local_folder(path: Path) -> None:
    """Checks that a new local folder can be made at a path. An empty folder may exist there.

    Temporary folders in it, which a killed process has left, do not count.

    Raises:
      FileExistsError: a file, or a folder that is not empty, exists at the path.
      OSError, InputError: no folder can be written there; see `check_output_path`.
    """
    check_output_path(path, is_folder=True)
    path = path.absolute()  # "." has no name to derive another from
    if path.is_dir() and not all(entry.name.startswith(_temporary_prefix(path)) for entry in path.iterdir()):
        raise already_exists_error(path)


@contextlib.contextmanager
def temporary_path(path: Path) -> Iterator[Path]:
    """A free path of the same name, in a hidden folder beside `path` that is removed at the end.

    Hidden folders of a killed process are named in the log, and removed after a day.
    """
    for old in path.parent.glob(f"{glob.escape(_temporary_prefix(path))}*"):
        with contextlib.suppress(OSError):  # another process may be removing it
            changed = max(place.stat().st_mtime for place in (old, *old.rglob("*")))
            if time.time() - changed > _ABANDONED:
                shutil.rmtree(old, ignore_errors=True)
            else:
                logging.warning("%s is of a command that is running, or was killed: remove it then", old)
    try:
        holder = tempfile.TemporaryDirectory(
            prefix=_temporary_prefix(path), dir=path.parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    with holder as folder:
        yield Path(folder) / path.name


def _temporary_prefix(path: Path) -> str:
    """The beginning of the names of temporary folders for a path."""
    return f".{path.name}.writing-"


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Writes a local file as a whole, or not at all if the block raises.

    The file's folder must exist. An existing file is replaced; if it is a link, its target is. An OSError
    names `path`.

    Yields:
      A temporary path to write the file to. The file is renamed when the block ends.
    """
    target = Path(os.path.realpath(path))
    with (
        reraise_with_path(path, target),
        temporary_path(target) as temporary,
        reraise_with_path(path, temporary),
    ):
        yield temporary
        temporary.replace(target)


def write_local_json(path: Path, values: Mapping[str, Any]) -> None:
    """Writes an object as JSON, with one key per line. The write is atomic."""
    with atomic_file(path) as temporary:
        temporary.write_text(json_text(values), encoding="utf-8")


def json_text(values: Mapping[str, Any]) -> str:
    """An object as JSON, with one key per line."""
    return dump_json(dict(values), indent=2) + "\n"


def dump_json(value: Any, **layout: Any) -> str:
    """A value as JSON. `layout` goes to `json.dumps`. NaN and infinity, which JSON lacks, become null.

    >>> dump_json({"loss": float("nan"), "f1": 0.5, "labels": ("é",)})
    '{"loss": null, "f1": 0.5, "labels": ["é"]}'
    """
    return json.dumps(_without_infinity(value), ensure_ascii=False, allow_nan=False, **layout)


def _without_infinity(value: Any) -> Any:
    """A copy of a value in which None replaces each float that is not finite."""
    if isinstance(value, Mapping):
        return {key: _without_infinity(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinity(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def csv_text(rows: Iterable[Iterable[Any]], separator: str = ",", quotes_all: bool = False) -> str:
    r"""Rows of cells as CSV, or as TSV with a tab as the separator. None is an empty cell.

    Cells are quoted as in RFC 4180: all, or only if a cell needs quotes. Python's own writer, except in its
    latest versions, does not quote a lone carriage return.

    >>> csv_text([["a\rb", "c", None, 0.5]])
    '"a\rb",c,,0.5\n'
    """
    needs_quotes = re.compile("" if quotes_all else rf'^[ \t\ufeff]|[{separator}"\r\n]')

    def spell(cell: Any) -> str:
        text = "" if cell is None else str(cell)
        return '"{}"'.format(text.replace('"', '""')) if needs_quotes.search(text) else text

    # Readers skip a blank line, so that a row of one empty cell is quoted.
    return "".join((separator.join(map(spell, row)) or '""') + "\n" for row in rows)


def read_local_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises InputError, with the file's name, if it holds no object."""
    return json_object(read_local_bytes(path), path)


def path_exists(path: str | os.PathLike[str]) -> bool:
    """True if a file or a folder exists. Raises OSError if that cannot be decided (a loop of links)."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in a name
        return False
    except OSError as error:
        raise OSError(error.errno, f"cannot be read: {error.strerror}", os.fspath(path)) from error
    return True


def read_local_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file. An OSError names the file even if `read` fails, such as on a bad disk."""
    with Path(path).open("rb") as file:
        try:
            return file.read()
        except OSError as error:
            raise OSError(error.errno, f"cannot be read: {error.strerror}", os.fspath(path)) from error


def json_object(content: bytes, path: str | os.PathLike[str], *, is_data: bool = False) -> dict[str, Any]:
    """Parses the content of a JSON file that holds an object.

    Args:
      content: the bytes of the file.
      path: its name for messages.
      is_data: True for examples; see `check_json`.
    Raises:
      InputError: the content is no JSON, or no object. The message names the file.
    """
    values = parse_json(content, path, is_data=is_data)
    if not isinstance(values, dict):
        raise InputError(f"{path}: not a JSON object but a {type(values).__name__}")
    return values


def parse_json(content: bytes, path: str | os.PathLike[str], *, is_data: bool = False) -> Any:
    """Parses the content of a JSON file that holds any value. See `json_object` for arguments and errors."""
    try:
        value = json.loads(content.decode(), object_pairs_hook=_unique_keys)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except RecursionError as error:
        raise InputError(
            f"{path}: lists or objects are nested too deeply: write fewer into each other"
        ) from error
    except ValueError as error:
        problem = (
            f"a number of more than {sys.get_int_max_str_digits()} digits: write it as a text, in quotes"
        )
        raise InputError(f"{path}: not JSON: {problem if 'digits' in str(error) else error}") from error
    check_json(value, os.fspath(path), is_data=is_data)
    return value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A dict of the pairs in a JSON object. Raises InputError if a key is repeated."""
    values = dict(pairs)
    if len(values) < len(pairs):
        key, count = collections.Counter(key for key, _ in pairs).most_common(1)[0]
        raise InputError(f"the key {shorten(key)} is there {count} times: leave one")
    return values


@contextlib.contextmanager
def _descriptor(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Flushes a file's content, or a folder's names, to the disk, so that a power cut does not lose it."""
    with _descriptor(path) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def make_folders(path: Path) -> Iterator[None]:
    """Makes a folder and its parents. If the block raises, the folders that are new and empty are removed."""
    new = [place for place in (path, *path.parents) if not place.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for place in new:
            with contextlib.suppress(OSError):  # it is not empty, or was never made
                place.rmdir()
        raise


@contextlib.contextmanager
def new_local_folder(path: Path) -> Iterator[Path]:
    """Writes a local folder as a whole, or not at all if the block raises.

    An existing empty folder stays, since it may be a mount or a link; the temporary folder is then inside it.

    Args:
      path: the folder, which is new or empty.
    Yields:
      A temporary folder. Its content appears at `path` when the block ends.
    Raises:
      OSError: the folder is not new or empty, or cannot be written. The error names `path`.
    """
    check_new_local_folder(path)
    path = path.absolute()
    exists = os.path.lexists(path)
    place = path if exists else path.parent
    with (
        make_folders(place),
        temporary_path(place / path.name) as temporary,
        reraise_with_path(path, temporary),
    ):
        temporary.mkdir()
        yield temporary
        if exists:
            for entry in temporary.iterdir():
                entry.rename(path / entry.name)
        else:
            temporary.rename(path)


def replace_folder(new: Path, target: Path) -> None:
    """Replaces a folder by a new one on the same filesystem. If it is a link, its target is replaced.

    If the filesystem can exchange two names, a folder exists at the target at every moment. Otherwise the old
    folder has another name for a moment, and `restore_folder` renames it back after an interruption.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and _exchange_names(new, target):
        shutil.rmtree(new, ignore_errors=True)
        return
    try:
        if target.exists():
            target.rename(_backup_path(target))
        new.rename(target)
    finally:
        restore_folder(target)


def restore_folder(target: Path) -> None:
    """After an interrupted `replace_folder`: renames the old folder back, or removes it if replaced."""
    target = Path(os.path.realpath(target))
    backup = _backup_path(target)
    if backup.exists() and not target.exists():
        backup.rename(target)
    shutil.rmtree(backup, ignore_errors=True)


def _backup_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.replaced")


def _exchange_names(one: Path, other: Path) -> bool:
    """Exchanges two names in one step. Returns False if the system or the filesystem cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)  # Linux only; Python has no function for it
    names = (os.fsencode(path.absolute()) for path in (one, other))
    return rename is not None and rename(0, next(names), 0, next(names), _RENAME_EXCHANGE) == 0


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[Callable[[], None]]:
    """Locks a folder against other processes while the block runs.

    Yields:
      A function that raises WorkFailed once the folder is no longer at its path: moved, removed or replaced.
    Raises:
      BlockingIOError: another process is using the folder.
    """
    with _descriptor(folder) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            remedy = "wait for its end, or name another place"
            raise BlockingIOError(f"{folder} is in use by another process: {remedy}") from None

        def check() -> None:
            try:
                if os.path.samestat(os.fstat(descriptor), folder.stat()):
                    return
            except (FileNotFoundError, NotADirectoryError):
                pass
            raise WorkFailed(
                f"{folder} was moved, removed or replaced, and nothing more is written: bring it back, and "
                "type the same command again"
            )

        check()  # the folder may have been replaced between opening and locking it
        yield check
