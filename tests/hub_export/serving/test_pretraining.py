import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.text.sentencepiece import SentencePieceVocabulary
from hub_export.module_comparison import read_requests
from hub_export.serving_signatures import ServingModel, serving_signatures
from tests.hub_export.conftest import CONFIG

TEXTS = ["The old clock", "", "A stone wall, and nobody had lived in it for years. Snow fell for three days."]


@pytest.fixture(scope="module")
def answer(serving):
    """Calls a signature of the loaded model."""
    return lambda signature, **inputs: serving.signatures[signature](**inputs)


def ids(tensor):
    return {
        "input_word_ids": tensor,
        "input_mask": tf.ones_like(tensor),
        "input_type_ids": tf.zeros_like(tensor),
    }


def test_texts_are_what_the_modules_make_of_them(answer, preprocessor, encoder):
    first, second = tf.constant(TEXTS), tf.constant(TEXTS[::-1])
    expected = encoder(preprocessor(first))["pooled_output"]
    actual = answer("serving_default", text=first)["pooled_output"]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
    segments = [preprocessor.tokenize(text) for text in (first, second)]
    expected = encoder(preprocessor.bert_pack_inputs(segments))["pooled_output"]
    actual = answer("pair", text=first, text_pair=second)["pooled_output"]
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("signature", ["serving_default", "pair", "fill_mask"])
def test_a_scalar_is_a_batch_of_one_and_a_column_is_a_batch(answer, signature):
    names = ("text", "text_pair") if signature == "pair" else ("text",)

    def answers(value):
        return answer(signature, **{name: tf.constant(value) for name in names})

    texts = ["the [MASK] clock", "a stone"]
    expected = answers(texts)
    for name, tensor in answers([[text] for text in texts]).items():
        np.testing.assert_array_equal(tensor, expected[name])
    one = answers(texts[:1])
    for name, tensor in answers(texts[0]).items():
        np.testing.assert_array_equal(tensor, one[name])
    with pytest.raises(tf.errors.InvalidArgumentError, match="4 values"):
        answers([texts, texts])


def test_tokens_are_what_the_encoder_makes_of_them(answer, encoder, tensors):
    actual, expected = answer("tokens", **tensors), encoder(tensors)
    for name in ("pooled_output", "sequence_output"):
        np.testing.assert_allclose(actual[name], expected[name], rtol=0, atol=1e-5)


def test_masks_are_filled_as_the_head_says(answer, preprocessor, encoder, tiny_vocabulary):
    pieces = SentencePieceVocabulary.from_file(tiny_vocabulary).pieces
    filled = answer("fill_mask", text=tf.constant(["the [MASK]", "[MASK] stone [MASK]", "no mask"]))
    assert filled["tokens"].shape == filled["scores"].shape == [3, 2, 5]
    stone = preprocessor.tokenize(tf.constant(["stone"])).to_list()[0]
    row = [2, 4, *stone, 4, 3]
    positions = [1, 2 + len(stone)]
    inputs = {**ids(tf.constant([row])), "masked_lm_positions": tf.constant([positions])}
    probabilities = tf.nn.softmax(encoder.mlm(inputs)["mlm_logits"])[0].numpy()
    probabilities[:, :5] = 0  # special pieces are no answers
    for place in range(2):
        best = np.argsort(-probabilities[place])[:5]
        np.testing.assert_allclose(filled["scores"][1, place], probabilities[place, best], rtol=1e-4)
        expected = [pieces[i].replace("▁", "") for i in best]
        assert [token.decode() for token in filled["tokens"][1, place].numpy()] == expected
    assert np.all(filled["tokens"].numpy()[[0, 2, 2], [1, 0, 1]] == b"")
    assert np.all(filled["scores"].numpy()[[0, 2, 2], [1, 0, 1]] == 0)
    assert answer("fill_mask", text=tf.constant(["none"]))["tokens"].shape == [1, 0, 5]
    trimmed = answer("fill_mask", text=tf.constant(["the old clock " * 30 + "[MASK]", "[MASK]"]))
    assert np.all(trimmed["tokens"][0] == b"")


def test_special_pieces_are_no_answers_however_likely(piece_tokenizer):
    unused = 3  # rows of embeddings beyond the vocabulary
    pieces = len(piece_tokenizer.vocabulary)
    model = albert_tf.AlbertPretrainer(CONFIG.replace(num_hidden_layers=1, vocab_size=pieces + unused))
    (bias,) = (variable for variable in model.mlm.weights if "output_bias" in variable.name)
    values = np.zeros(pieces + unused, np.float32)
    values[:5], values[-unused:], values[7] = 30, 30, 20
    bias.assign(values)
    signatures = serving_signatures(ServingModel(model, piece_tokenizer, 16, {}))
    filled = signatures["fill_mask"].function(tf.constant(["the [MASK]"]))
    answers = [token.decode() for token in filled["tokens"][0, 0].numpy()]
    assert answers[0] == piece_tokenizer.vocabulary.pieces[7].replace("▁", "")
    assert not {"", "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"} & set(answers)
    # The probabilities are those of the model, which are small: nothing is scaled up to a sum of 1.
    assert 0 < filled["scores"][0, 0, 0] < 1e-3


def test_there_is_a_request_for_each_signature(serving, exported):
    requests = read_requests(exported.serving)
    assert (
        sorted(requests)
        == sorted(serving.signatures)
        == ["embed", "fill_mask", "pair", "serving_default", "tokens"]
    )
    assert requests["fill_mask"]["text"].numpy() == [b"The water is [MASK]."]
    assert read_requests(exported.encoder) == {}


def test_ranks_of_ids_are_checked_in_the_graph(answer):
    """A server does not compare them with the signature."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="is not compatible"):
        answer("tokens", **ids(tf.constant([2, 3])))
