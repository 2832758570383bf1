import tensorflow as tf

from albert_tf.tasks.masked_words import answer_table, mask_positions, tokens_with_masks


def test_tokens_with_masks(tiny_tokenizer):
    tokenizer, spell = tiny_tokenizer.tokenize, tiny_tokenizer.vocabulary.pieces.__getitem__

    def pieces(text):
        (row,) = tokens_with_masks(tf.constant([text]), tokenizer).to_list()
        return [spell(i) for i in row]

    the, wall = (tokenizer(tf.constant([text])).to_list()[0] for text in ("the", "wall"))
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
    positions, is_mask = mask_positions(word_ids, mask_id=4)
    assert positions.numpy().tolist() == [[1, 3], [0, 0], [0, 0]]
    assert is_mask.numpy().tolist() == [[True, True], [False, False], [True, False]]


def test_answers_are_words_of_the_vocabulary(tiny_tokenizer):
    vocabulary = tiny_tokenizer.vocabulary
    texts, may_answer = answer_table(vocabulary, len(vocabulary) + 2)
    assert texts.shape == may_answer.shape == (len(vocabulary) + 2,)
    assert not may_answer[[0, 1, 2, 3, 4, -1, -2]].any()
    assert may_answer[5:-2].all()
    assert "the" in texts
    # An empty answer means that there is no mask, so a space alone has to be something else.
    assert [i for i, text in enumerate(texts) if "▁" in text] == [vocabulary.pieces.index("▁")]
    assert [i for i, text in enumerate(texts) if not text] == [len(vocabulary), len(vocabulary) + 1]
