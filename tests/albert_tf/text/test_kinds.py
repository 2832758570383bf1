"""A further kind of tokenizer, with other special ids and another frame, goes through pre-training."""

import json

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.text import tokenizer
from albert_tf.text.sentencepiece import SentencePieceTokenizer
from albert_tf.text.tokenizer import open_tokenizer
from albert_tf.text.tokenizer_config import VOCABULARY_FILES
from tests.other_tokenizer import IDS, WordTokenizer


@pytest.fixture
def vocabulary(tmp_path, monkeypatch):
    monkeypatch.setitem(tokenizer.TOKENIZER_CLASSES, "words", WordTokenizer)
    monkeypatch.setitem(VOCABULARY_FILES, "words", ("words.txt",))
    (tmp_path / "words.txt").touch()
    (tmp_path / "words.txt.tokenizer.json").write_text(json.dumps({"kind": "words"}))
    return tmp_path / "words.txt"


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_pretraining_batches(vocabulary, tiny_corpus, objective):
    dataset = albert_tf.pretraining_dataset(
        tiny_corpus, vocabulary, batch_size=8, seq_length=32, sentence_objective=objective, repeat=False
    )
    for batch in dataset.as_numpy_iterator():
        ids, mask = batch["input_word_ids"], batch["input_mask"]
        assert not batch["input_type_ids"].any()
        is_real = mask.any(axis=1)
        assert (ids[is_real, 0] == 0).all()
        assert (ids[is_real][mask[is_real] == 0] == 1).all()
        expected = [0, 2] if objective == "none" else [0, 2, 2, 2]
        for row, length in zip(ids[is_real], mask[is_real].sum(axis=1), strict=True):
            special = [token for token in row[:length] if token in (0, 2)]
            assert special == expected and row[length - 1] == 2
        rows, columns = np.nonzero(batch["masked_lm_weights"])
        masked = ids[rows, batch["masked_lm_positions"][rows, columns]]
        assert (masked == IDS.mask).any() and (masked >= IDS.mask).all()


def test_kinds_are_told_by_the_settings(vocabulary, tiny_vocabulary):
    assert isinstance(open_tokenizer(vocabulary), WordTokenizer)
    found = open_tokenizer(tiny_vocabulary, lowercase=False)
    assert isinstance(found, SentencePieceTokenizer) and found.kind == "sentencepiece"
    assert found.settings == {"lowercase": False, "strip_accents": True}
    assert found.vocabulary.files == {"spiece.model": tiny_vocabulary.read_bytes()}
    (vocabulary.parent / "words.txt.tokenizer.json").write_text(json.dumps({"kind": "letters"}))
    with pytest.raises(InputError, match="'letters'"):
        open_tokenizer(vocabulary)
