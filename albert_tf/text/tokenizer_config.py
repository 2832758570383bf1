"""Settings of tokenizers: kind and normalisation, and the JSON file beside a vocabulary that has them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from albert_tf.errors import InputError, Missing, check_choice, check_names, check_type
from albert_tf.io import PathLike, path_exists, read_local_bytes, read_local_json, write_local_json

# Of a run directory, and of exported modules.
TOKENIZER_FILE = "tokenizer.json"

TOKENIZER_KIND, SENTENCEPIECE = "kind", "sentencepiece"  # which a file without the key means
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

# All settings of each kind, with the values that Google's and RoBERTa's tokenizers have fixed.
KIND_DEFAULTS: dict[str, Mapping[str, bool]] = {
    SENTENCEPIECE: TOKENIZER_DEFAULTS,
    WORDPIECE: {
        **TOKENIZER_DEFAULTS,
        "tokenize_chinese_chars": True,  # each ideograph is a word
        "like_transformers": False,  # where its BertTokenizer is not as Google's: `basic_words`
    },
    BYTE_LEVEL_BPE: {**UNCHANGED, "add_prefix_space": False},  # before a text that begins without one
}


def read_settings_beside(vocabulary: PathLike) -> Path:
    """The file with the settings of a vocabulary.

    >>> read_settings_beside("folder/ru.model").as_posix()
    'folder/ru.tokenizer.json'
    """
    path = Path(vocabulary)
    return path.with_name(f"{path.name.removesuffix('.model')}.{TOKENIZER_FILE}")


def check_tokenizer_settings(values: Mapping[str, Any], where: str = "") -> dict[str, bool]:
    """The settings in a tokenizer.json, without the kind, and with the defaults of what is left out.

    An InputError, which begins with `where`, if a name is unknown to the kind, or a value is neither true nor
    false.
    """
    kind = values.get(TOKENIZER_KIND, SENTENCEPIECE)
    check_choice(f"{where}{TOKENIZER_KIND}", kind, KIND_DEFAULTS)
    defaults = KIND_DEFAULTS[kind]
    values = {name: value for name, value in values.items() if name != TOKENIZER_KIND}
    check_names(values, defaults, f"{where}settings of a tokenizer")
    for name, value in values.items():
        check_type(f"{where}{name}", "bool", value)
    return {**defaults, **values, **(UNCHANGED if kind == BYTE_LEVEL_BPE else {})}


def write_settings_beside(vocabulary: PathLike, values: Mapping[str, bool]) -> None:
    """Writes the file beside a SentencePiece model, whole or not at all; an existing one is replaced."""
    settings = {TOKENIZER_KIND: SENTENCEPIECE, **check_tokenizer_settings(values)}
    write_local_json(read_settings_beside(vocabulary), settings)


def resolve_settings(vocabulary: PathLike | None, asked: Mapping[str, Any] | None = None) -> dict[str, bool]:
    """The settings of a vocabulary's tokenizer: as asked for, else (None) as it remembers, else the defaults.

    `lowercase` and `strip_accents` mean nothing to byte-level BPE, which ignores them.

    A ValueError if what was asked for contradicts what the vocabulary remembers.
    """
    kind = SENTENCEPIECE if vocabulary is None else read_tokenizer_kind(vocabulary)
    unused = UNCHANGED if kind == BYTE_LEVEL_BPE else {}
    asked = {name: x for name, x in (asked or {}).items() if x is not None and name not in unused}
    wanted = check_tokenizer_settings({TOKENIZER_KIND: kind, **asked})
    if vocabulary is None or (found := _remembered(vocabulary)) is None:
        return wanted
    path, values = found
    remembered = check_tokenizer_settings(values, f"{path}: ")
    for name, value in asked.items():
        if value != remembered[name]:
            there = f"{name}={remembered[name]} in {path}, by which {vocabulary} was made"
            raise InputError(f"{name}={value} contradicts {there}: leave it out, or train another vocabulary")
    return remembered


def read_tokenizer_kind(vocabulary: PathLike) -> str:
    """The kind of a vocabulary's tokenizer: as its tokenizer.json says, or else by its file's name.

    An InputError if there is no such kind.
    """
    if (found := _remembered(vocabulary)) is None:
        main = _main_file(vocabulary).name
        return next((kind for kind, names in VOCABULARY_FILES.items() if main in names), SENTENCEPIECE)
    path, values = found
    kind = values.get(TOKENIZER_KIND, SENTENCEPIECE)
    check_choice(f"{path}: {TOKENIZER_KIND}", kind, KIND_DEFAULTS)
    return kind


def read_vocabulary(vocabulary: PathLike, kind: str | None = None) -> dict[str, bytes]:
    """The contents of a vocabulary's files by their names in a run directory.

    It is named by its file; byte-level BPE's by one of its two, or their folder. None: its kind is read, too.

    Raises:
      FileNotFoundError: a file does not exist.
      InputError: a folder is named in place of a file.
    """
    path = _main_file(vocabulary)
    names = VOCABULARY_FILES[kind or read_tokenizer_kind(vocabulary)]
    files = {names[0]: path} if len(names) == 1 else {name: path.with_name(name) for name in names}
    for name, file in files.items():
        if file.is_dir():
            raise InputError(f"{file} is a folder: name the vocabulary in it, such as {file / name}")
        if not path_exists(file):
            raise Missing(f"{file}: no such vocabulary file; `albert-tf vocab` trains one")
    return {name: read_local_bytes(file) for name, file in files.items()}


def fingerprint_of(files: Mapping[str, bytes]) -> str:
    """SHA-256 of a vocabulary's files, in hexadecimal: tells whether data was made with it."""
    return hashlib.sha256(b"".join(files.values())).hexdigest()


def lines_of_vocabulary(content: bytes, name: str) -> list[str]:
    """The lines of a vocabulary's file; UnicodeDecodeError if it is not UTF-8, InputError if it has a mark.

    They end as Python's universal newlines do, and not at other separators, which multilingual vocabularies
    have as pieces.
    """
    text = content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    if text.startswith("\ufeff"):
        raise InputError(f"{name} begins with a byte order mark, U+FEFF: save it without")
    return text.removesuffix("\n").split("\n")


def _main_file(vocabulary: PathLike) -> Path:
    """The file of a vocabulary, in whose folder the others are."""
    main = Path(vocabulary, VOCABULARY_FILES[BYTE_LEVEL_BPE][0])
    return main if main.is_file() else Path(vocabulary)


def _remembered(vocabulary: PathLike) -> tuple[Path, dict[str, Any]] | None:
    """The file with the settings of a vocabulary and what is in it: its own, or that of its run or module."""
    main = _main_file(vocabulary)
    for path in (read_settings_beside(main), main.with_name(TOKENIZER_FILE)):
        if path.is_file():
            values = read_local_json(path)
            if "model" not in values:  # which one of transformers has
                return path, values
    return None
