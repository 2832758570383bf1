import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.tasks.masked_words import tokens_with_masks
from albert_tf.text.packing import pack
from albert_tf.text.tokenizer import Tokenizer
from albert_tf.text.vocabulary_training import train_vocabulary

# With the ids of BERT's special pieces, and those of RoBERTa's but for the mask's.
SPECIAL_IDS = {"wordpiece": (0, 1, 2, 3, 4), "byte_level_bpe": (1, 3, 0, 2, 4)}


@pytest.mark.parametrize("kind", SPECIAL_IDS)
def test_a_vocabulary_is_opened_as_it_was_trained(kind, tiny_corpus, tmp_path):
    output = tmp_path / ("bpe" if kind == "byte_level_bpe" else "own.txt")
    vocabulary = train_vocabulary(tiny_corpus, output, 300, kind=kind, strip_accents=False)
    assert vocabulary.special_ids == SPECIAL_IDS[kind]
    tokenizer = Tokenizer(output, strip_accents=False)
    assert tokenizer.tokenize.kind == kind and 270 < tokenizer.vocab_size == len(vocabulary) <= 300
    assert tokenizer.tokenize.settings["lowercase"] == (kind == "wordpiece")
    tokens = [str(vocabulary.texts[i]) for i in tokenizer(["The bees are still there."]).flat_values]
    assert "".join(tokens).replace("##", "").lower() == "thebeesarestillthere."
    assert len(tokens) < 16  # frequent pieces were joined
    packed = pack([tokenizer(["The bees."])], 16, tokenizer)["input_word_ids"][0].numpy()
    assert (packed[0], packed[-1]) == (vocabulary.special_ids.start, vocabulary.special_ids.padding)
    own, usual = (
        tokens_with_masks(tf.constant([f"The {mask} bees"]), tokenizer.tokenize).to_list()
        for mask in (vocabulary.special_pieces[-1], "[MASK]")
    )
    assert own == usual and vocabulary.special_ids.mask in own[0]
    with pytest.raises(FileExistsError):
        train_vocabulary(tiny_corpus, tiny_corpus, 300, kind=kind)


@pytest.mark.parametrize("kind", SPECIAL_IDS)
def test_the_same_text_gives_the_same_vocabulary(kind, tiny_corpus, tmp_path):
    first, *others = (train_vocabulary(tiny_corpus, tmp_path / f"{n}", 300, kind=kind) for n in range(4))
    assert all(other.pieces == first.pieces for other in others)


@pytest.mark.parametrize(("kind", "size"), [("wordpiece", 6), ("byte_level_bpe", 100)])
def test_sizes_that_are_too_small(kind, size, tiny_corpus, tmp_path):
    with pytest.raises(InputError, match=f"vocab_size={size} is too small"):
        train_vocabulary(tiny_corpus, tmp_path / "new", size, kind=kind)
    assert not list(tmp_path.iterdir())
