import pytest
import tensorflow as tf

from albert_tf.tokenizers import PieceTokenizer, Vocabulary
from albert_tf.tokenizers.masks import answer_table, mask_positions, tokens_with_masks


@pytest.fixture(scope="module")
def tokenizer(tiny_vocabulary):
    return PieceTokenizer(Vocabulary.from_file(tiny_vocabulary))


def test_tokens_with_masks(tokenizer):
    def pieces(text):
        (row,) = tokens_with_masks(tf.constant([text]), tokenizer).to_list()
        return [tokenizer.vocabulary.pieces[i] for i in row]

    the, wall = (tokenizer(tf.constant([text])).to_list()[0] for text in ("the", "wall"))
    spell = tokenizer.vocabulary.pieces.__getitem__
    assert pieces("the [MASK] wall") == [*map(spell, the), "[MASK]", *map(spell, wall)]
    assert pieces("the [MASK].")[len(the) :] == ["[MASK]", "."]
    assert pieces("the [MASK] .")[len(the) :] == ["[MASK]", "▁", "."]
    assert pieces(". [MASK]") == ["▁", ".", "[MASK]"]  # nothing was glued to a mask here
    assert pieces("[MASK][MASK]") == ["[MASK]", "[MASK]"]
    assert pieces("") == []
    assert pieces("[mask]") != ["[MASK]"]
    assert tokens_with_masks(tf.constant([], tf.string), tokenizer).to_list() == []


def test_mask_positions():
    word_ids = tf.constant([[2, 4, 7, 4, 3], [2, 7, 7, 7, 3], [4, 7, 7, 7, 7]])
    positions, is_mask = mask_positions(word_ids)
    assert positions.numpy().tolist() == [[1, 3], [0, 0], [0, 0]]
    assert is_mask.numpy().tolist() == [[True, True], [False, False], [True, False]]


def test_answers_are_words_of_the_vocabulary(tiny_vocabulary):
    vocabulary = Vocabulary.from_file(tiny_vocabulary)
    texts, may_answer = answer_table(vocabulary, len(vocabulary) + 2)
    assert texts.shape == may_answer.shape == (len(vocabulary) + 2,)
    assert not may_answer[[0, 1, 2, 3, 4, -1, -2]].any()
    assert may_answer[5:-2].all()
    assert "the" in texts
    # An empty answer means that there is no mask, so a space alone has to be something else.
    assert texts[vocabulary.pieces.index("▁")] == "▁"
    assert [text for text in texts if "▁" in text] == ["▁"]
    assert [i for i, text in enumerate(texts) if not text] == [len(vocabulary), len(vocabulary) + 1]
