"""Hidden states of tokens alone, against those of all positions."""

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.models.padding import skip_padding
from tests.albert_tf.models.oracles import NAMES, inputs_of, perturbed
from tests.tiny import TINY

# Full, short, [CLS] alone, nothing at all, and one with a gap.
MASK = np.array(
    [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 1, 0]],
    np.int32,
)
PLACES = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 18, 24, 25, 28]
SPEC = dict.fromkeys(NAMES, tf.TensorSpec([None, None], tf.int32))
SPEC["token_places"] = tf.TensorSpec([None], tf.int32)


@pytest.fixture(scope="module")
def encoder():
    return perturbed(albert_tf.AlbertEncoder(TINY))


def test_places():
    np.testing.assert_array_equal(skip_padding(inputs_of(MASK))["token_places"], PLACES)
    of_choices = inputs_of(MASK[np.newaxis])  # [B, C, S]
    np.testing.assert_array_equal(skip_padding(of_choices)["token_places"], PLACES)
    assert skip_padding(inputs_of(MASK[:0]))["token_places"].shape == [0]


@pytest.mark.parametrize(
    "mask", [MASK, MASK[1:2], MASK[:0], MASK[3:4]], ids=["all", "one", "none", "no token"]
)
def test_states_of_tokens_are_the_same_and_those_of_padding_zeros(encoder, mask):
    inputs, rows = inputs_of(mask), mask.any(axis=1)
    call = tf.function(encoder, input_signature=[SPEC])
    expected, packed = encoder(inputs), skip_padding(inputs)
    is_token = np.isin(np.arange(mask.size), packed["token_places"]).reshape(*mask.shape, 1)
    for outputs in (encoder(packed), call(packed)):
        assert np.isfinite(outputs["sequence_output"]).all()  # of a row without tokens: anything
        np.testing.assert_allclose(outputs["pooled_output"][rows], expected["pooled_output"][rows], atol=1e-5)
        for found, of_all in zip(outputs["encoder_outputs"], expected["encoder_outputs"], strict=True):
            np.testing.assert_allclose(found[rows], (of_all * is_token)[rows], atol=1e-5)
            assert not np.any(found.numpy()[~is_token[..., 0]])
        np.testing.assert_array_equal(outputs["sequence_output"], outputs["encoder_outputs"][-1])


def test_no_dense_layer_sees_padding(encoder, dense_rows):
    encoder(skip_padding(inputs_of(MASK)))
    assert dense_rows == [len(PLACES)] * 4 * TINY.num_hidden_layers


@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize(
    "shape", [{}, {"sharing": "none", "pooler": "none"}, {"num_hidden_groups": 3, "inner_group_num": 2}]
)
def test_the_pooled_output_alone_is_the_same_and_has_the_same_gradients(shape, remat):
    """By all positions of all layers; of a classifier, too, which asks for it."""
    encoder = perturbed(albert_tf.AlbertEncoder(TINY.replace(**shape), remat=remat))
    inputs, variables = inputs_of(MASK[[0, 1, 2, 4]]), encoder.trainable_variables

    def computed(inputs, **options):
        with tf.GradientTape() as tape:
            outputs = encoder(inputs, training=True, **options)
            state = (
                outputs["pooled_output"] if options or encoder.pooler else outputs["sequence_output"][:, 0]
            )
            loss = tf.reduce_sum(state**2)
        return outputs, state, tape.gradient(loss, variables, unconnected_gradients="zero")

    _, state, gradients = computed(inputs)
    for alike in (inputs, skip_padding(inputs)):
        outputs, found, of_found = computed(alike, pooled_only=True)
        assert outputs.keys() == {"pooled_output"}
        np.testing.assert_allclose(found, state, atol=1e-5)
        for variable, one, other in zip(variables, of_found, gradients, strict=True):
            one, other = map(tf.convert_to_tensor, (one, other))
            np.testing.assert_allclose(one, other, atol=1e-4, err_msg=variable.name)


def test_a_classifier_computes_the_first_token_alone_in_the_last_layer(dense_rows):
    albert_tf.AlbertClassifier(TINY, num_labels=2)(inputs_of(MASK))
    expected = [MASK.size] * 4 * (TINY.num_hidden_layers - 1) + [MASK.size] + [len(MASK)] * 4
    assert dense_rows == expected


MODELS = {
    "classifier, mean": (albert_tf.AlbertClassifier, {"num_labels": 3, "pooling": "mean"}),
    "token classifier": (albert_tf.AlbertTokenClassifier, {"num_labels": 3}),
    "answerability": (albert_tf.AlbertSpanLabeler, {"answerability": True, "start_n_top": 2, "end_n_top": 2}),
    "multiple choice": (albert_tf.AlbertMultipleChoice, {"num_choices": len(MASK)}),
    "pretrainer": (albert_tf.AlbertPretrainer, {}),
}


@pytest.mark.parametrize("kind", MODELS)
def test_every_network_says_the_same_of_what_is_no_padding(kind):
    make, arguments = MODELS[kind]
    model = perturbed(make(TINY, **arguments))
    of_choices = kind.startswith("multiple choice")
    mask = MASK[[0, 1, 2, 0, 4]]
    inputs = inputs_of(mask[np.newaxis] if of_choices else mask)
    expected, found = model(inputs), model(skip_padding(inputs))
    for name in ("logits", "pooled_output", "sop_logits", "no_answer_logits", "start_top_log_probs"):
        if name in found and kind != "token classifier":
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
    if kind == "token classifier":
        np.testing.assert_allclose(found["logits"][mask > 0], expected["logits"][mask > 0], atol=1e-5)
