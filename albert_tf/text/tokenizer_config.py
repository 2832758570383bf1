"""Settings of tokenizers, kind and normalisation, and the JSON file that stores them beside a vocabulary."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from absl import logging

from albert_tf.errors import InputError, MissingFileError, check_choice, check_names, check_type
from albert_tf.io import PathLike, path_exists, read_local_bytes, read_local_json

# In run directories and exported modules.
TOKENIZER_FILE = "tokenizer.json"

TOKENIZER_KIND, SENTENCEPIECE = "kind", "sentencepiece"  # the kind of a file without this key
WORDPIECE, BYTE_LEVEL_BPE = "wordpiece", "byte_level_bpe"
# The files of a vocabulary in a run directory, by its kind.
VOCABULARY_FILES = {
    SENTENCEPIECE: ("spiece.model",),
    WORDPIECE: ("vocab.txt",),
    BYTE_LEVEL_BPE: ("vocab.json", "merges.txt"),
}

# The kind that the models of a family were published with.
FAMILY_KINDS = {
    "albert": SENTENCEPIECE,
    "bert": WORDPIECE,
    "distilbert": WORDPIECE,
    "roberta": BYTE_LEVEL_BPE,
}

# The published English vocabulary's settings.
TOKENIZER_DEFAULTS = {"lowercase": True, "strip_accents": True}

# The settings of a kind that does not normalise.
NO_NORMALIZATION = {"lowercase": False, "strip_accents": False}

# All settings of each kind, with the fixed values of Google's and RoBERTa's tokenizers.
KIND_DEFAULTS: dict[str, Mapping[str, bool]] = {
    SENTENCEPIECE: TOKENIZER_DEFAULTS,
    WORDPIECE: {
        **TOKENIZER_DEFAULTS,
        "tokenize_chinese_chars": True,  # each ideograph is a word
        "like_transformers": False,  # where its BertTokenizer differs from Google's: see `basic_words`
    },
    BYTE_LEVEL_BPE: {**NO_NORMALIZATION, "add_prefix_space": False},  # before a text that begins without one
}


def tokenizer_settings_path(vocabulary: PathLike) -> Path:
    """The path of the file that stores a vocabulary's settings beside it.

    >>> tokenizer_settings_path("folder/ru.model").as_posix()
    'folder/ru.tokenizer.json'
    """
    path = Path(vocabulary)
    return path.with_name(f"{path.name.removesuffix('.model')}.{TOKENIZER_FILE}")


def check_tokenizer_settings(values: Mapping[str, Any], where: str = "") -> dict[str, bool]:
    """The settings in a tokenizer.json: without the kind, and with defaults for missing ones.

    Args:
      values: the content of the file.
      where: the beginning of the error message.
    Raises:
      InputError: the kind has no setting of this name, or a value is neither true nor false.
    """
    kind = values.get(TOKENIZER_KIND, SENTENCEPIECE)
    check_choice(f"{where}{TOKENIZER_KIND}", kind, KIND_DEFAULTS)
    defaults = KIND_DEFAULTS[kind]
    values = {name: value for name, value in values.items() if name != TOKENIZER_KIND}
    check_names(values, defaults, f"{where}settings of a tokenizer")
    for name, value in values.items():
        check_type(f"{where}{name}", "bool", value)
    return {**defaults, **values, **(NO_NORMALIZATION if kind == BYTE_LEVEL_BPE else {})}


def resolve_settings(
    vocabulary: PathLike | None, requested: Mapping[str, Any] | None = None, kind: str = SENTENCEPIECE
) -> dict[str, bool]:
    """The settings of a vocabulary's tokenizer: the requested ones, else its stored ones, else the defaults.

    A WordPiece vocabulary with capital letters keeps the case and the accents of texts by default.

    Args:
      vocabulary: path of the vocabulary; None: there is none, so nothing is stored.
      requested: settings by name; None stands for a setting that is not requested. Byte-level BPE ignores
        `lowercase` and `strip_accents`.
      kind: kind of the tokenizer, if there is no vocabulary.
    Raises:
      InputError: a requested setting contradicts a stored one.
    """
    kind = kind if vocabulary is None else read_tokenizer_kind(vocabulary)
    unused = NO_NORMALIZATION if kind == BYTE_LEVEL_BPE else {}
    requested = {name: x for name, x in (requested or {}).items() if x is not None and name not in unused}
    settings = check_tokenizer_settings({TOKENIZER_KIND: kind, **requested})
    stored = None if vocabulary is None else _read_stored_settings(vocabulary)
    if vocabulary is None or stored is None:
        is_open = kind == WORDPIECE and not requested.keys() & NO_NORMALIZATION.keys()
        if is_open and vocabulary is not None and _has_capitals(vocabulary):
            message = "%s has pieces with capital letters: texts keep their case and accents"
            logging.log_first_n(logging.INFO, message, 1, vocabulary)
            return {**settings, **NO_NORMALIZATION}
        return settings
    path, values = stored
    stored_settings = check_tokenizer_settings(values, f"{path}: ")
    for name, value in requested.items():
        if value != stored_settings[name]:
            other = f"{name}={stored_settings[name]} in {path}, by which {vocabulary} was made"
            raise InputError(f"{name}={value} contradicts {other}: leave it out, or train another vocabulary")
    return stored_settings


def settings_of_kind(values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The content of a tokenizer.json for a vocabulary of this kind.

    A run that was saved without a vocabulary has the kind of its family, and one of another kind may be added
    later. The settings that all kinds have then stay.
    """
    if kind == values.get(TOKENIZER_KIND, SENTENCEPIECE):
        return dict(values)
    return {TOKENIZER_KIND: kind, **{name: values[name] for name in TOKENIZER_DEFAULTS if name in values}}


def stores_settings(vocabulary: PathLike) -> bool:
    """True if there is a settings file for a vocabulary."""
    return _read_stored_settings(vocabulary) is not None


def read_tokenizer_kind(vocabulary: PathLike) -> str:
    """The kind of a vocabulary's tokenizer, from its tokenizer.json or else from its file's name.

    Raises InputError if there is no such kind.
    """
    if (stored := _read_stored_settings(vocabulary)) is None:
        return _kind_of_file(_main_file(vocabulary)) or SENTENCEPIECE
    path, values = stored
    kind = values.get(TOKENIZER_KIND, SENTENCEPIECE)
    check_choice(f"{path}: {TOKENIZER_KIND}", kind, KIND_DEFAULTS)
    return kind


def read_vocabulary(vocabulary: PathLike, kind: str | None = None) -> dict[str, bytes]:
    """The contents of a vocabulary's files by their names in a run directory.

    Args:
      vocabulary: path of its file; for byte-level BPE one of the two files, or their folder.
      kind: the kind of the vocabulary; None: as `read_tokenizer_kind` finds.
    Raises:
      FileNotFoundError: a file does not exist.
      InputError: the path of a file is a folder.
    """
    path = _main_file(vocabulary)
    names = VOCABULARY_FILES[kind or read_tokenizer_kind(vocabulary)]
    files = {names[0]: path} if len(names) == 1 else {name: path.with_name(name) for name in names}
    for name, file in files.items():
        if file.is_dir():
            raise InputError(f"{file} is a folder: name the vocabulary in it, such as {file / name}")
        if not path_exists(file):
            raise MissingFileError(f"{file}: no such vocabulary file; `albert-tf vocab` trains one")
    return {name: read_local_bytes(file) for name, file in files.items()}


def fingerprint_of(files: Mapping[str, bytes]) -> str:
    """SHA-256 of a vocabulary's files, in hexadecimal. It tells whether data was made with the vocabulary."""
    return hashlib.sha256(b"".join(files.values())).hexdigest()


def split_vocabulary_lines(content: bytes, name: str) -> list[str]:
    """The lines of a vocabulary's file, which end at LF, CR or CR LF.

    Other separators of `str.splitlines` end no line, since multilingual vocabularies have them as pieces.
    Raises UnicodeDecodeError if the file is not UTF-8, InputError if it has a byte order mark.
    """
    text = content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    if text.startswith("\ufeff"):
        raise InputError(f"{name} begins with a byte order mark, U+FEFF: save it without")
    return text.removesuffix("\n").split("\n")


def _has_capitals(vocabulary: PathLike) -> bool:
    """True if two pieces of a WordPiece vocabulary, and a hundredth, or more, are of no lowercased text."""
    file = _main_file(vocabulary)
    if not file.is_file():  # the error of `read_vocabulary` explains it
        return False
    pieces = read_local_bytes(file).decode("utf-8", "replace").splitlines()
    pieces = [piece for piece in pieces if not piece.startswith("[")]
    return sum(piece != piece.lower() for piece in pieces) >= max(2, len(pieces) / 100)


def _main_file(vocabulary: PathLike) -> Path:
    """The main file of a vocabulary: `vocab.json` if the path is a folder with one, else the path itself."""
    main = Path(vocabulary, VOCABULARY_FILES[BYTE_LEVEL_BPE][0])
    return main if main.is_file() else Path(vocabulary)


def _kind_of_file(main: Path) -> str | None:
    """The kind whose vocabularies have a file of this name in run directories; None if there is none."""
    return next((kind for kind, names in VOCABULARY_FILES.items() if main.name in names), None)


def _read_stored_settings(vocabulary: PathLike) -> tuple[Path, dict[str, Any]] | None:
    """Path and content of the settings file: the vocabulary's own, or the one of its run or module."""
    main = _main_file(vocabulary)
    if main.is_dir():  # the error of `read_vocabulary` explains it
        return None
    for path in (tokenizer_settings_path(main), main.with_name(TOKENIZER_FILE)):
        if path.is_file():
            values = read_local_json(path)
            if "model" not in values:  # else it is a tokenizer.json of transformers
                kind = _kind_of_file(main) if path.name == TOKENIZER_FILE else None
                return path, values if kind is None else settings_of_kind(values, kind)
    return None
