"""Kinds of tokenizers; one with other special ids and another frame goes through pre-training."""

import json
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.tokenizers.byte_level_bpe import BytePairTokenizer
from albert_tf.tokenizers.kinds import open_tokenizer
from albert_tf.tokenizers.sentencepiece import PieceTokenizer
from albert_tf.utils.errors import InputError


@pytest.mark.parametrize("objective", ["nsp", "none"])
def test_pretraining_batches(byte_pairs, tiny_corpus, objective):
    dataset = albert_tf.pretraining_dataset(
        tiny_corpus, byte_pairs, batch_size=8, seq_length=32, sentence_objective=objective, repeat=False
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
        assert (masked == 4).any() and (masked >= 4).all()  # the mask, or what is no special piece


def test_kinds_are_told_by_the_settings(byte_pairs, tiny_vocabulary, tmp_path):
    assert isinstance(open_tokenizer(byte_pairs), BytePairTokenizer)
    found = open_tokenizer(tiny_vocabulary, lowercase=False)
    assert isinstance(found, PieceTokenizer) and found.kind == "sentencepiece"
    assert found.settings == {"lowercase": False, "strip_accents": True}
    assert found.vocabulary.files == {"spiece.model": tiny_vocabulary.read_bytes()}
    other = shutil.copy(tiny_vocabulary, tmp_path / "other.model")
    (tmp_path / "other.tokenizer.json").write_text(json.dumps({"kind": "letters"}))
    with pytest.raises(InputError, match="'letters'"):
        open_tokenizer(other)
