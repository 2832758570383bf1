import json

import pytest

from albert_tf.errors import InputError
from albert_tf.text.tokenizer_config import TOKENIZER_DEFAULTS, resolve_settings, tokenizer_settings_path

CASED = {"lowercase": False, "strip_accents": True}


def test_without_a_file_what_is_asked_for_counts(tmp_path):
    assert resolve_settings(None) == resolve_settings(tmp_path / "m.model", {}) == TOKENIZER_DEFAULTS
    assert resolve_settings(tmp_path / "m.model", {"lowercase": False}) == CASED


@pytest.mark.parametrize("name", ["ru.model", "ru.v2"])
def test_a_vocabulary_remembers(name, tmp_path):
    path = tmp_path / f"{name.removesuffix('.model')}.tokenizer.json"
    path.write_text(json.dumps({"kind": "sentencepiece", **CASED}))
    assert path == tokenizer_settings_path(tmp_path / name)
    assert resolve_settings(tmp_path / name) == CASED
    assert resolve_settings(tmp_path / name, {"lowercase": False}) == CASED
    assert resolve_settings(tmp_path / "other.model") == TOKENIZER_DEFAULTS
    with pytest.raises(InputError, match=rf"lowercase=True contradicts lowercase=False in .*{path.name}"):
        resolve_settings(tmp_path / name, {"lowercase": True})


def test_the_vocabulary_of_a_run_and_of_a_folder_of_transformers(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(CASED))
    assert resolve_settings(tmp_path / "spiece.model") == CASED
    path.write_text(json.dumps({"version": "1.0", "model": {"type": "Unigram"}, "lowercase": 1}))
    assert resolve_settings(tmp_path / "spiece.model") == TOKENIZER_DEFAULTS


@pytest.mark.parametrize(
    ("content", "named"),
    [(b'{"lowercase": 1}', "lowercase=1"), (b'{"lowercased": true}', "lowercased"), (b"{", "")],
)
def test_damaged_files_are_named(content, named, tmp_path):
    path = tmp_path / "m.tokenizer.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"m\.tokenizer\.json.*{named}"):
        resolve_settings(tmp_path / "m.model")


@pytest.mark.parametrize(
    ("capitals", "others", "keeps"), [(1, 9, False), (2, 199, False), (2, 198, True), (3, 0, True)]
)
def test_a_wordpiece_vocabulary_with_capitals_keeps_the_case_of_texts(capitals, others, keeps, tmp_path):
    """Two of its pieces and a hundredth, and [CLS] is none of them; a few are in lowercase ones, too."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]"]
    pieces = [*special, *(f"{x}é" for x in "ABC"[:capitals]), *(f"##{n}" for n in range(others))]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces), encoding="utf-8")
    found = resolve_settings(tmp_path / "vocab.txt")
    assert (found["lowercase"], found["strip_accents"]) == (not keeps, not keeps)
    found = resolve_settings(tmp_path / "vocab.txt", {"lowercase": True})
    assert (found["lowercase"], found["strip_accents"]) == (True, True)
    (tmp_path / "tokenizer.json").write_text('{"kind": "wordpiece"}')
    assert resolve_settings(tmp_path / "vocab.txt")["lowercase"]
