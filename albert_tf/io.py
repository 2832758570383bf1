"""Files of this machine: written whole or not at all, JSON, CSV. TensorFlow is not imported."""

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
    check_json,
    exists_already,
    shorten,
    system_error,
)

PathLike = str | os.PathLike[str]

_ABANDONED = 24 * 3600  # seconds
_RENAME_EXCHANGE = 2  # of linux/fs.h
_LONGEST_NAME = 220  # bytes, of 255 that filesystems take: temporary files need the rest
_LONGEST_PATH = 3800  # bytes, of 4096
_SCHEME = re.compile(r"([A-Za-z][\w+.-]+):/+")


def check_path(path: Any, argument: str) -> Path:
    """A path that somebody names; an InputError, with the argument's name, if it is none."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InputError(f"{argument}={shorten(path)} is not a path")
    check_encodable(path)
    return Path(path)


def check_encodable(path: str | os.PathLike[str]) -> None:
    """InputError for a name that is not UTF-8, which TensorFlow cannot take."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{os.fspath(path)!a} is a name that is not UTF-8: rename it") from None


@contextlib.contextmanager
def naming_path(path: Path, temporary: Path) -> Iterator[None]:
    """Makes errors of the system about a temporary file or folder name the path that the user knows."""
    try:
        yield
    except OSError as error:  # of `write` it names no file
        names = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if name is not None]
        if error.errno is None or not (names == [] or any(name.is_relative_to(temporary) for name in names)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    except Exception as error:  # TensorFlow's are no OSErrors
        reason = system_error(error)
        if reason is None or str(temporary) not in str(reason.filename):
            raise
        raise OSError(reason.errno, reason.strerror, str(path)) from error


def address_of(path: str | os.PathLike[str]) -> str | None:
    """A path on another filesystem, such as gs://bucket, as text; None for one of this machine.

    >>> address_of(Path("gs://bucket/run"))  # pathlib makes one slash of two
    'gs://bucket/run'
    """
    text = os.fspath(path)
    match = _SCHEME.match(text)
    return None if match is None else f"{match[1]}://{text[match.end() :]}"


def check_place(path: Path, *, is_folder: bool) -> None:
    """Refuses a place where no folder, or no file, can be written, before work is done for it.

    Raises:
      OSError: the path, or what it lies in, is of the other kind, or a name is too long; it is named.
      InputError: it is an address such as gs://bucket, which would become a local folder `gs:`.
    """
    check_encodable(path)
    if address := address_of(path):
        raise InputError(f"{address} is not on this machine: name a local path, and copy from there")
    try:
        whole = path.absolute() if is_folder else Path(os.path.realpath(path))  # a link to a file is followed
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: the working folder is gone: go into another one") from error
    there = next(place for place in (whole, *whole.parents) if os.path.lexists(place))
    names = (whole.name, *whole.relative_to(there).parts)
    longest = max(len(os.fsencode(name)) for name in names)
    if longest > _LONGEST_NAME or len(os.fsencode(whole)) > _LONGEST_PATH:
        reason = f"File name too long ({longest} bytes, {_LONGEST_NAME} at most)"
        raise OSError(errno.ENAMETOOLONG, reason, str(path))
    if not is_folder and whole != path.absolute() and not whole.parent.is_dir():
        raise FileNotFoundError(f"{path} is a link to {whole}, whose folder is missing: name another place")
    if there != whole and not there.is_dir():
        reason = f"cannot be written ({there} is not a folder): name another place"
        raise NotADirectoryError(errno.ENOTDIR, reason, str(path))
    if there == whole and not there.is_dir() and not there.is_file():
        raise FileExistsError(f"{path} is neither a file nor a folder: name another place")
    if there == whole and is_folder and not there.is_dir():
        raise FileExistsError(f"{path} is not a folder: name another place")
    if there == whole and not is_folder and there.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    folder = there if there != whole else there.parent  # where what replaces it is written first
    if not os.access(folder, os.W_OK | os.X_OK):
        reason = f"cannot be written (the folder {folder} is read-only): name another place"
        raise PermissionError(errno.EACCES, reason, str(path))


def check_there(path: PathLike, problem: str) -> None:
    """FileNotFoundError with the problem if a path of this machine does not exist."""
    if address_of(path) is None and not path_exists(path):
        raise FileNotFoundError(f"{os.fspath(path)}: {problem}")


def check_new(path: Path) -> None:
    """Refuses a place where no new folder can be made: an empty one may be there.

    What a killed process has left unfinished in it does not count.

    Raises:
      FileExistsError: there is something at the path.
      OSError, InputError: as `check_place`.
    """
    check_place(path, is_folder=True)
    path = path.absolute()  # "." has no name to derive another from
    if path.is_dir() and not all(entry.name.startswith(_hidden(path)) for entry in path.iterdir()):
        raise exists_already(path)


@contextlib.contextmanager
def scratch(path: Path) -> Iterator[Path]:
    """A path of the same name where nothing is yet, in a hidden folder beside it that is removed at the end.

    A folder that a killed process has left is named in the log, and removed after a day.
    """
    for left in path.parent.glob(f"{glob.escape(_hidden(path))}*"):
        with contextlib.suppress(OSError):  # it is just disappearing
            changed = max(place.stat().st_mtime for place in (left, *left.rglob("*")))
            if time.time() - changed > _ABANDONED:
                shutil.rmtree(left, ignore_errors=True)
            else:
                logging.warning("%s is of a command that is running, or was killed: remove it then", left)
    try:
        holder = tempfile.TemporaryDirectory(
            prefix=_hidden(path), dir=path.parent, ignore_cleanup_errors=True
        )
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    with holder as folder:
        yield Path(folder) / path.name


def _hidden(path: Path) -> str:
    """The beginning of the names of temporary folders for a path."""
    return f".{path.name}.writing-"


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A name to write a file under; it gets its own when the block ends, and vanishes when it raises.

    The file's folder exists; a file that is there is replaced, of a link the one that it leads to. An OSError
    names `path`.
    """
    target = Path(os.path.realpath(path))
    with naming_path(path, target), scratch(target) as temporary, naming_path(path, temporary):
        yield temporary
        temporary.replace(target)


def write_local_json(path: Path, values: Mapping[str, Any]) -> None:
    """Writes an object as JSON, a key a line, whole or not at all."""
    with whole_file(path) as temporary:
        temporary.write_text(json_text(values), encoding="utf-8")


def json_text(values: Mapping[str, Any]) -> str:
    """An object as JSON, a key a line."""
    return dump_json(dict(values), indent=2) + "\n"


def dump_json(value: Any, **layout: Any) -> str:
    """A value as JSON, with arguments of `json.dumps`; NaN and infinity, which JSON lacks, are null.

    >>> dump_json({"loss": float("nan"), "f1": 0.5, "labels": ("é",)})
    '{"loss": null, "f1": 0.5, "labels": ["é"]}'
    """
    return json.dumps(_without_infinity(value), ensure_ascii=False, allow_nan=False, **layout)


def _without_infinity(value: Any) -> Any:
    """A value with None for each float in it that is not finite."""
    if isinstance(value, Mapping):
        return {key: _without_infinity(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinity(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def csv_text(rows: Iterable[Iterable[Any]], separator: str = ",", quotes_all: bool = False) -> str:
    r"""Rows of cells as CSV, or as TSV between tabs; None is an empty cell.

    Quotes are those of RFC 4180, around all cells or around those that need them. Python's own writer puts
    none around a lone carriage return, except in its latest versions.

    >>> csv_text([["a\rb", "c", None, 0.5]])
    '"a\rb",c,,0.5\n'
    """
    needs_quotes = re.compile("" if quotes_all else rf'^[ \t\ufeff]|[{separator}"\r\n]')

    def spell(cell: Any) -> str:
        text = "" if cell is None else str(cell)
        return '"{}"'.format(text.replace('"', '""')) if needs_quotes.search(text) else text

    # A blank line would be no row.
    return "".join((separator.join(map(spell, row)) or '""') + "\n" for row in rows)


def read_local_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; an InputError, with the file's name, if it holds none."""
    return json_object(read_local_bytes(path), path)


def path_exists(path: str | os.PathLike[str]) -> bool:
    """True if there is a file or a folder; an OSError where nobody can tell, as of links in a loop."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the latter of a NUL in a name
        return False
    except OSError as error:
        raise OSError(error.errno, f"cannot be read: {error.strerror}", os.fspath(path)) from error
    return True


def read_local_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file; an OSError names the file also where `read` fails, as of a bad disk."""
    with Path(path).open("rb") as file:
        try:
            return file.read()
        except OSError as error:
            raise OSError(error.errno, f"cannot be read: {error.strerror}", os.fspath(path)) from error


def json_object(content: bytes, path: str | os.PathLike[str], *, is_data: bool = False) -> dict[str, Any]:
    """The object in the content of a JSON file; an InputError, with the file's name, if it holds none.

    `is_data` is that of `check_json`.
    """
    values = parse_json(content, path, is_data=is_data)
    if not isinstance(values, dict):
        raise InputError(f"{path}: not a JSON object but a {type(values).__name__}")
    return values


def parse_json(content: bytes, path: str | os.PathLike[str], *, is_data: bool = False) -> Any:
    """The value in the content of a JSON file; errors are those of `json_object`."""
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
    """The object of the pairs in a JSON text; an InputError if a key is there twice."""
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
    """Returns once the disk has a file's content, or a folder's names, as a power cut leaves them."""
    with _descriptor(path) as descriptor:
        os.fsync(descriptor)


@contextlib.contextmanager
def made_folders(path: Path) -> Iterator[None]:
    """Makes a folder and those that it lies in; where the block raises, those vanish that were not there."""
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
def new_directory(path: Path) -> Iterator[Path]:
    """A temporary folder whose content appears at `path` when the block ends, and vanishes when it raises.

    A folder that is there already stays, since it may be a mount or a link; the temporary one is then in it.

    Raises:
      OSError: as `check_new`; or something cannot be written, and it names `path`.
    """
    check_new(path)
    path = path.absolute()
    is_there = os.path.lexists(path)
    place = path if is_there else path.parent
    with made_folders(place), scratch(place / path.name) as temporary, naming_path(path, temporary):
        temporary.mkdir()
        yield temporary
        if is_there:
            for entry in temporary.iterdir():
                entry.rename(path / entry.name)
        else:
            temporary.rename(path)


def replace_folder(new: Path, target: Path) -> None:
    """Gives a folder the name of another, which is gone then; of a link, that of the folder that it leads to.

    Both are on one filesystem. Where that can exchange two names there is always one of the two; where
    it cannot, the old folder has another name for a moment, from which `restore_folder` brings it back.
    """
    target = Path(os.path.realpath(target))
    if target.exists() and _exchanged(new, target):
        shutil.rmtree(new, ignore_errors=True)
        return
    try:
        if target.exists():
            target.rename(_aside(target))
        new.rename(target)
    finally:
        restore_folder(target)


def restore_folder(target: Path) -> None:
    """Gives a folder its name back that nothing has replaced since it was set aside, or removes it."""
    target = Path(os.path.realpath(target))
    aside = _aside(target)
    if aside.exists() and not target.exists():
        aside.rename(target)
    shutil.rmtree(aside, ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.replaced")


def _exchanged(one: Path, other: Path) -> bool:
    """Exchanges two names at once; False where the system or the filesystem cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)  # of Linux; Python has no function for it
    names = (os.fsencode(path.absolute()) for path in (one, other))
    return rename is not None and rename(0, next(names), 0, next(names), _RENAME_EXCHANGE) == 0


@contextlib.contextmanager
def sole_use(folder: Path) -> Iterator[Callable[[], None]]:
    """Keeps other processes out of a folder while the block runs.

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

        check()  # it may have been replaced between its opening and its lock
        yield check
