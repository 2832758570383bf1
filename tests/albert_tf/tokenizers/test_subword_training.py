import numpy as np
import pytest
import tensorflow as tf

from albert_tf.tokenizers import Tokenizer, train_vocabulary
from albert_tf.tokenizers.byte_level_bpe import BytePairTokenizer, BytePairVocabulary
from albert_tf.tokenizers.subword_training import train_byte_level_bpe, train_wordpiece
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer, WordPieceVocabulary

TEXT = [line.encode() for line in ("low lower lowest", "newer newest , wider widest", "low new new é")] * 20


def test_wordpiece():
    vocabulary = WordPieceVocabulary(train_wordpiece(TEXT, 60))
    assert vocabulary.special_ids == (0, 1, 2, 3, 4) and len(vocabulary) <= 60
    tokenizer = WordPieceTokenizer(vocabulary, strip_accents=False)
    pieces = [vocabulary.pieces[i] for i in tokenizer(tf.constant(["lower newest é"])).flat_values]
    assert "".join(pieces).replace("##", "") == "lowernewesté"
    assert len(pieces) < len("lowernewesté") / 2  # frequent pieces were joined


def test_byte_level_bpe():
    vocabulary = BytePairVocabulary(train_byte_level_bpe(TEXT, 300))
    assert vocabulary.special_ids == (1, 3, 0, 2, 4)  # RoBERTa's but for the mask's
    assert 261 < len(vocabulary) <= 300
    tokens, starts, limits = BytePairTokenizer(vocabulary).tokenize_with_offsets(
        tf.constant(["lower 木 low"])
    )
    assert np.array_equal(starts.values[1:], limits.values[:-1]) and len(tokens.values) < 9


@pytest.mark.parametrize(("train", "size"), [(train_wordpiece, 6), (train_byte_level_bpe, 100)])
def test_sizes_that_are_too_small(train, size):
    with pytest.raises(ValueError, match=f"vocab_size={size}"):
        train(TEXT, size)


@pytest.mark.parametrize("kind", ["wordpiece", "byte_level_bpe"])
def test_a_vocabulary_is_opened_as_it_was_trained(kind, tiny_corpus, tmp_path):
    output = tmp_path / ("bpe" if kind == "byte_level_bpe" else "own.txt")
    vocabulary = train_vocabulary(tiny_corpus, output, 300, kind=kind, strip_accents=False)
    tokenizer = Tokenizer(output, strip_accents=False)
    assert tokenizer.tokenize.kind == kind and tokenizer.vocab_size == len(vocabulary) <= 300
    assert tokenizer.tokenize.settings["lowercase"] == (kind == "wordpiece")
    tokens = [str(vocabulary.texts[i]) for i in tokenizer(["The bees are still there."]).flat_values]
    assert "".join(tokens).replace("##", "").lower() == "thebeesarestillthere."
    with pytest.raises(FileExistsError):
        train_vocabulary(tiny_corpus, tiny_corpus, 300, kind=kind)
