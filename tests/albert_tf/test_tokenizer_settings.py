import json

import pytest

from albert_tf.tokenizer_settings import (
    TOKENIZER_DEFAULTS,
    read_settings,
    remember_settings,
    resolved_settings,
    settings_beside,
)

CASED = {"lowercase": False, "strip_accents": True}


def test_without_a_file_what_is_asked_for_counts(tmp_path):
    assert resolved_settings(None) == resolved_settings(tmp_path / "m.model", {}) == TOKENIZER_DEFAULTS
    assert resolved_settings(tmp_path / "m.model", {"lowercase": False}) == CASED


@pytest.mark.parametrize("name", ["ru.model", "ru", "ru.v2.model"])
def test_a_vocabulary_remembers(name, tmp_path):
    remember_settings(tmp_path / name, CASED)
    (path,) = tmp_path.iterdir()
    assert path == settings_beside(tmp_path / name)
    assert path.name == f"{name.removesuffix('.model')}.tokenizer.json"
    assert json.loads(path.read_text()) == {"kind": "sentencepiece", **CASED}
    assert resolved_settings(tmp_path / name) == CASED
    assert resolved_settings(tmp_path / name, {"lowercase": False}) == CASED
    assert resolved_settings(tmp_path / "other.model") == TOKENIZER_DEFAULTS


@pytest.mark.parametrize(
    "asked", [{"lowercase": True}, {"strip_accents": False}, {"lowercase": True, "strip_accents": True}]
)
def test_what_contradicts_it_is_refused(asked, tmp_path):
    remember_settings(tmp_path / "ru.model", CASED)
    name = next(iter(asked))
    message = rf"{name}={asked[name]} contradicts {name}={CASED[name]} in .*ru\.tokenizer\.json"
    with pytest.raises(ValueError, match=message):
        resolved_settings(tmp_path / "ru.model", asked)


def test_the_vocabulary_of_a_run_and_of_a_folder_of_transformers(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(CASED))
    assert resolved_settings(tmp_path / "spiece.model") == CASED
    path.write_text(json.dumps({"version": "1.0", "model": {"type": "Unigram"}, "lowercase": 1}))
    assert resolved_settings(tmp_path / "spiece.model") == TOKENIZER_DEFAULTS


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"lowercase": 1}', "lowercase=1"),
        (b'{"lowercased": true}', "lowercased"),
        (b"[]", "list"),
        (b"{", ""),
        (b"\xff", ""),
    ],
)
def test_damaged_files_are_named(content, message, tmp_path):
    path = tmp_path / "m.tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"m\.tokenizer\.json.*{message}"):
        read_settings(path)
    with pytest.raises(ValueError, match=rf"m\.tokenizer\.json.*{message}"):
        resolved_settings(tmp_path / "m.model")
