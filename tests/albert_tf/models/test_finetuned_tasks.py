"""The models of fine-tuning against NumPy by hand; test_huggingface.py has the recorded outputs."""

import numpy as np
import pytest
import tensorflow as tf

from albert_tf import AlbertClassifier, AlbertMultipleChoice, AlbertSpanLabeler, AlbertTokenClassifier
from albert_tf.errors import InputError
from albert_tf.models.early_exit import call_with_early_exit
from albert_tf.models.heads import mean_state
from albert_tf.models.task_models import split_seed
from tests.albert_tf.models.oracles import inputs_of
from tests.tiny import TINY

SMALL = TINY.replace(num_hidden_layers=1)
B, C, S = 2, 3, 6
# A model, the shape of its inputs, and the scope and units of its head.
MODELS = {
    "classifier": (lambda config: AlbertClassifier(config, num_labels=C), [B, S], "classifier", C),
    "token_classifier": (lambda config: AlbertTokenClassifier(config, num_labels=C), [B, S], "classifier", C),
    "span_labeler": (AlbertSpanLabeler, [B, S], "cls/squad", 2),
    "multiple_choice": (
        lambda config: AlbertMultipleChoice(config, num_choices=C),
        [B, C, S],
        "classifier",
        1,
    ),
}


def inputs(shape):
    mask = np.ones(shape, np.int32)
    mask[0, ..., -2:] = 0
    return {name: rows.numpy() for name, rows in inputs_of(mask).items()}


@pytest.mark.parametrize("kind", MODELS)
def test_logits_eagerly_and_in_a_graph_of_unknown_shapes(kind):
    make, shape, scope, units = MODELS[kind]
    model, batch = make(SMALL), inputs(shape)
    weights, bias = model.variables[-2:]
    assert [v.name for v in (weights, bias)] == [f"{scope}/output_weights:0", f"{scope}/output_bias:0"]
    assert weights.shape == (units, 32)
    bias.assign(np.linspace(1, 2, units))
    weights, bias = weights.numpy(), bias.numpy()
    if kind == "span_labeler":
        logits = model.encoder(batch)["sequence_output"].numpy() @ weights.T + bias  # [B, S, 2]
        expected = {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}
    elif kind == "multiple_choice":
        rows = [model.encoder({k: v[:, c] for k, v in batch.items()})["pooled_output"] for c in range(C)]
        expected = {"logits": np.stack([row.numpy() @ weights[0] + bias[0] for row in rows], axis=1)}
    else:
        states = "sequence_output" if kind == "token_classifier" else "pooled_output"
        expected = {"logits": model.encoder(batch)[states].numpy() @ weights.T + bias}
    spec = {
        name: tf.TensorSpec([None, *shape[1:-1], None], tf.int32) for name in batch
    }  # of choices the number is known
    traced = tf.function(lambda x: model(x), input_signature=[spec])
    for outputs in (model(batch), traced(batch)):
        assert outputs.keys() == expected.keys()
        for name, values in expected.items():
            np.testing.assert_allclose(outputs[name], values, atol=1e-5)


def test_logits_of_the_mean_of_the_tokens_states():
    """Of a classifier, and of multiple choice; the first example is padded."""
    classifier = AlbertClassifier(SMALL, num_labels=C, pooling="mean")
    choices = AlbertMultipleChoice(SMALL, num_choices=C, pooling="mean")
    for model, shape in ((classifier, [B, S]), (choices, [B, C, S])):
        assert not model.encoder.pooler.trainable
        batch = inputs(shape)
        flat = {name: value.reshape(-1, S) for name, value in batch.items()}
        states = model.encoder(flat)["sequence_output"]
        logits = model.classifier(mean_state(states, flat["input_mask"]))
        np.testing.assert_allclose(model(batch)["logits"], tf.reshape(logits, [B, C]), atol=1e-5)


def test_a_choice_without_tokens_is_none():
    """Of the head, of all exits, and of examples that may leave early; the other choices stay as they are."""
    config = SMALL.replace(num_hidden_layers=2)
    model = AlbertMultipleChoice(config, num_choices=C, early_exit=True)
    batch = inputs([B, C, S])
    fewer = {**batch, "input_mask": batch["input_mask"].copy()}
    fewer["input_mask"][1, C - 1] = 0
    is_choice = np.ones([B, C], bool)
    is_choice[1, C - 1] = False
    expected, found = model(batch), model(fewer)
    leaving = call_with_early_exit(model, fewer, config.num_hidden_layers)
    np.testing.assert_array_equal(found["logits"], found["exit_logits"][:, -1])
    for name, other in (("logits", found), ("exit_logits", found), ("logits", leaving)):
        probabilities = tf.nn.softmax(other[name]).numpy().reshape([B, -1, C])
        assert (probabilities[1, :, C - 1] == 0).all()
        logits = other[name].numpy().reshape([B, -1, C]).swapaxes(1, 2)[is_choice]
        wanted = expected[name].numpy().reshape([B, -1, C]).swapaxes(1, 2)[is_choice]
        np.testing.assert_allclose(logits, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", [AlbertClassifier, AlbertTokenClassifier])
def test_dropout_before_the_logits_in_training_only(kind):
    model = kind(SMALL.replace(classifier_dropout_prob=0.5), num_labels=1)
    model.classifier.output_weights.assign(np.ones([1, 32]))
    batch, seed = {"input_word_ids": np.full([200, 1], 7, np.int32)}, tf.constant([1, 2])

    def logits(**kwargs):
        return model(batch, **kwargs)["logits"].numpy()

    plain = logits()
    np.testing.assert_array_equal(logits(training=False, seed=seed), plain)
    dropped = logits(training=True, seed=seed)
    np.testing.assert_array_equal(logits(training=True, seed=seed), dropped)
    assert np.ptp(dropped) > 0.1  # rows are alike but for what is dropped
    assert np.abs(logits(training=True) - logits(training=True)).max() > 0.1
    # The sum of h_i / (1 - p) over those kept has mean Σh and variance Σh² · p / (1 - p).
    states = model.encoder(batch)["pooled_output" if kind is AlbertClassifier else "sequence_output"]
    variance = np.square(states.numpy()[0]).sum()
    np.testing.assert_allclose(dropped.mean(), plain.mean(), atol=4 * np.sqrt(variance / 200))
    np.testing.assert_allclose(dropped.std(), np.sqrt(variance), rtol=0.2)


def test_the_head_drops_by_a_seed_that_the_encoder_does_not_have():
    pairs = [split_seed(True, tf.constant([number, 0])) for number in range(10)]
    seeds = [(number, 0) for number in range(10)] + [tuple(x.numpy()) for pair in pairs for x in pair]
    assert len(set(seeds)) == 30


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: AlbertClassifier(SMALL, num_labels=0), "num_labels=0"),
        (lambda: AlbertTokenClassifier(SMALL, num_labels=2.5), "num_labels=2.5"),
        (lambda: AlbertMultipleChoice(SMALL, num_choices=-1), "num_choices=-1"),
        (lambda: AlbertClassifier(SMALL, 2, pooling="max"), "pooling='max'"),
        (lambda: AlbertSpanLabeler(SMALL, answerability="yes"), "answerability='yes'"),
        (lambda: AlbertSpanLabeler(SMALL, answerability=True, end_n_top=0), "end_n_top=0"),
    ],
)
def test_bad_arguments(make, named):
    with pytest.raises(InputError, match=named):
        make()


def test_bad_input():
    choices = AlbertMultipleChoice(SMALL, num_choices=C)
    for shape in ([B, S], [B, C + 1, S]):
        with pytest.raises(InputError, match="input_word_ids has shape"):
            choices({"input_word_ids": np.zeros(shape, np.int32)})
    labeler = AlbertSpanLabeler(SMALL, answerability=True)
    with pytest.raises(InputError, match="input_type_ids is missing"):
        labeler({"input_word_ids": np.zeros([B, S], np.int32)})
    with pytest.raises(InputError, match="end_n_top=5"):
        labeler(inputs([B, 4]))
