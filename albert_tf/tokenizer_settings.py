"""Settings of tokenizers: kind and normalisation, and the JSON file beside a vocabulary that has them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from albert_tf.utils.checks import check_choice
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import read_json, write_json

PathLike = str | os.PathLike[str]

# Of a run directory, and of exported modules.
TOKENIZER = "tokenizer.json"

KIND, SENTENCEPIECE = "kind", "sentencepiece"  # which a file without the key means
WORDPIECE, BYTE_LEVEL_BPE = "wordpiece", "byte_level_bpe"
# The files of a vocabulary in a run directory, by its kind.
VOCABULARY_FILES = {
    SENTENCEPIECE: ("spiece.model",),
    WORDPIECE: ("vocab.txt",),
    BYTE_LEVEL_BPE: ("vocab.json", "merges.txt"),
}

# Those of the published English vocabulary.
TOKENIZER_DEFAULTS = {"lowercase": True, "strip_accents": True}

# Of a kind that does not normalise.
UNCHANGED = {"lowercase": False, "strip_accents": False}

_MODEL = ".model"


def settings_beside(vocabulary: PathLike) -> Path:
    """The file with the settings of a vocabulary.

    >>> settings_beside("folder/ru.model").as_posix()
    'folder/ru.tokenizer.json'
    """
    path = Path(vocabulary)
    return path.with_name(f"{path.name.removesuffix(_MODEL)}.{TOKENIZER}")


def checked_settings(values: Mapping[str, Any]) -> dict[str, bool]:
    """Tokenizer settings with the defaults of what is left out.

    Raises:
      ValueError: a name is unknown, or a value is neither true nor false.
    """
    unknown = sorted(values.keys() - TOKENIZER_DEFAULTS.keys())
    if unknown:
        raise InputError(
            f"unknown tokenizer setting {', '.join(unknown)}: there are {', '.join(TOKENIZER_DEFAULTS)}"
        )
    for name, value in values.items():
        if not isinstance(value, bool):
            raise InputError(f"{name}={value!r} must be true or false")
    return {**TOKENIZER_DEFAULTS, **values}


def remember_settings(vocabulary: PathLike, values: Mapping[str, bool], kind: str = SENTENCEPIECE) -> None:
    """Writes the file beside a vocabulary, whole or not at all; an existing one is replaced."""
    write_settings(settings_beside(vocabulary), values, kind)


def write_settings(path: Path, values: Mapping[str, bool], kind: str = SENTENCEPIECE) -> None:
    """Writes a tokenizer.json; settings that are left out have their defaults."""
    write_json(path, {KIND: kind, **checked_settings(values)})


def resolved_settings(vocabulary: PathLike | None, asked: Mapping[str, Any] | None = None) -> dict[str, bool]:
    """Settings of the normalisation: as asked for, else as the vocabulary remembers, else the defaults.

    Args:
      vocabulary: SentencePiece model; None where there is none.
      asked: `lowercase` and `strip_accents`, as far as somebody says.
    Returns:
      Both.
    Raises:
      ValueError: what was asked for contradicts what the vocabulary remembers, or a file of settings is
        damaged.
    """
    asked = asked or {}
    if vocabulary is not None and remembered_kind(vocabulary) == BYTE_LEVEL_BPE:
        return dict(UNCHANGED)
    wanted = checked_settings(asked)
    path = None if vocabulary is None else _remembering(Path(vocabulary))
    if path is None:
        return wanted
    remembered = read_settings(path)
    for name, value in asked.items():
        if value != remembered[name]:
            raise InputError(
                f"{name}={value} contradicts {name}={remembered[name]} in {path}, which says how the text of "
                f"{vocabulary} was normalised: say the same or nothing, or train another vocabulary"
            )
    return remembered


def read_settings(path: Path) -> dict[str, bool]:
    """The settings of normalisation in a file; InputError, with the file's name, if it holds none."""
    values = read_json(path)
    values.pop(KIND, None)
    try:
        return checked_settings(values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def remembered_kind(vocabulary: PathLike, kinds: Collection[str] | None = None) -> str:
    """The kind of a vocabulary's tokenizer: as its tokenizer.json says, or else by its file's name.

    Args:
      vocabulary: its file.
      kinds: those that are known; None: any.
    Raises:
      InputError: it is none of `kinds`.
    """
    path = _remembering(Path(vocabulary))
    if path is None:
        main = _main_file(Path(vocabulary)).name
        return next((kind for kind, names in VOCABULARY_FILES.items() if main in names), SENTENCEPIECE)
    kind = read_json(path).get(KIND, SENTENCEPIECE)
    if kinds is not None:
        check_choice(f"{path}: {KIND}", kind, kinds)
    return kind


def vocabulary_files(vocabulary: PathLike) -> dict[str, Path]:
    """The files of a vocabulary by their names in a run directory.

    Args:
      vocabulary: its file; of byte-level BPE one of its two, or their folder.
    """
    path, kind = _main_file(Path(vocabulary)), remembered_kind(vocabulary, VOCABULARY_FILES)
    names = VOCABULARY_FILES[kind]
    return {names[0]: path} if len(names) == 1 else {name: path.with_name(name) for name in names}


def lines_of_vocabulary(content: bytes) -> list[str]:
    """The pieces in a `vocab.txt`; UnicodeDecodeError if it is not UTF-8.

    Only a line feed ends a line: multilingual vocabularies have other separators as pieces.
    """
    return [line.removesuffix("\r") for line in content.decode("utf-8").removesuffix("\n").split("\n")]


def _main_file(vocabulary: Path) -> Path:
    """The file of a vocabulary, in whose folder the others are."""
    main = vocabulary / VOCABULARY_FILES[BYTE_LEVEL_BPE][0]
    return main if main.is_file() else vocabulary


def _remembering(vocabulary: Path) -> Path | None:
    """The file with the settings of a vocabulary: its own, or that of the run or module which it lies in."""
    vocabulary = _main_file(vocabulary)
    own, folders = settings_beside(vocabulary), vocabulary.with_name(TOKENIZER)
    if own.is_file():
        return own
    return folders if folders.is_file() and not _is_hugging_face(folders) else None


def _is_hugging_face(path: Path) -> bool:
    """True if a tokenizer.json is that of transformers."""
    try:
        return "model" in read_json(path)
    except InputError:
        return False  # read_settings says what is wrong with it
