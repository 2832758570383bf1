"""Texts to logits: trained, asked, saved and loaded as a Keras model, and against the model by hand."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import albert_tf
from albert_tf.finetuning.trained import read_trained
from albert_tf.models.padding import Tokens
from albert_tf.utils.errors import InputError
from hub_export.encoder import encoder_module
from hub_export.export import _save_module, _save_serving
from hub_export.serving import Served, serving_signatures
from tests.albert_tf.inference.conftest import SMALL
from tests.tiny import DOCUMENTS

# The first document is about a lighthouse and the second about bread.
TEXTS = [text for document in DOCUMENTS[:2] for text in document]
LABELS = [number for number, document in enumerate(DOCUMENTS[:2]) for _ in document]
NAMES = ["sea", "bread"]


@pytest.fixture(scope="module")
def classifier(made):
    """A model that no test trains; its head is large, for answers to differ."""
    model = albert_tf.TextClassifier.from_run(made("fill_mask").run, labels=NAMES)
    weights = model.classifier.classifier.output_weights
    weights.assign(tf.random.stateless_normal(weights.shape, [1, 2]))
    return model


@pytest.fixture
def fresh(made):
    """A model of its own for a test, and others like it."""
    run = made("fill_mask").run  # now: a test may look at what is traced when it calls this
    return lambda **settings: albert_tf.TextClassifier.from_run(run, **{"labels": NAMES, **settings})


def by_hand(model, tokenizer, text, pair=None, seq_length=64):
    """The logits of one text, unpadded."""
    segments = [tokenizer(tf.constant([part])).to_list()[0] for part in (text, pair) if part is not None]
    assert sum(map(len, segments)) <= seq_length - 1 - len(segments)
    words = [2, *(token for segment in segments for token in (*segment, 3))]
    types = [number for number, segment in enumerate(segments) for _ in (*segment, 3)]
    inputs = {"input_word_ids": [words], "input_type_ids": [[0, *types]]}
    return model({name: tf.constant(rows) for name, rows in inputs.items()})["logits"][0]


def test_padding_is_skipped_but_in_training_and_where_all_is_padded(fresh, monkeypatch):
    at, found = Tokens.at, []
    monkeypatch.setattr(Tokens, "at", staticmethod(lambda *places: found.append(places) or at(*places)))
    model = fresh()
    model(TEXTS[:2], training=True)
    fresh(pad_to_length=True).predict(TEXTS[:2], verbose=0)
    assert not found
    model.predict(TEXTS[:2], verbose=0)
    assert found


def test_logits_by_hand(classifier, piece_tokenizer):
    expected = [by_hand(classifier.classifier, piece_tokenizer, text) for text in TEXTS]
    batches = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3)
    texts = tf.constant(TEXTS)
    for form in (TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS)[:, np.newaxis], texts, batches):
        np.testing.assert_allclose(classifier.predict(form, batch_size=5, verbose=0), expected, atol=1e-5)
    for form in (TEXTS, texts, texts[:, tf.newaxis]):
        np.testing.assert_allclose(classifier(form), expected, atol=1e-5)
    np.testing.assert_allclose(classifier.predict_on_batch(texts), expected, atol=1e-5)
    text = keras.Input([], dtype=tf.string)
    whole = keras.Model(text, tf.nn.softmax(classifier(text)))
    np.testing.assert_allclose(whole(texts), tf.nn.softmax(expected), atol=1e-5)
    assert np.ptp([row[0] - row[1] for row in expected]) > 0.1


def test_pairs_by_hand(classifier, piece_tokenizer):
    pairs = [("the lamp", "a hat"), ("salt", "the dough is ready"), ("a", "b")]
    expected = [by_hand(classifier.classifier, piece_tokenizer, *pair) for pair in pairs]
    first, second = (list(column) for column in zip(*pairs, strict=True))
    array, columns = np.array(pairs), (tf.constant(first), tf.constant(second))
    batches = tf.data.Dataset.from_tensor_slices((columns, [0, 1, 0])).batch(2)
    for form in ((first, second), [first, second], pairs, array, tf.constant(pairs), batches):
        np.testing.assert_allclose(classifier.predict(form, verbose=0), expected, atol=1e-5)
    for form in (columns, tf.constant(pairs)):
        np.testing.assert_allclose(classifier(form), expected, atol=1e-5)


def test_a_long_text_is_cut_and_a_static_shape_is_padded(fresh, piece_tokenizer):
    model = fresh(seq_length=12, pad_to_length=True)
    seen = []
    call = model.classifier.call
    model.classifier.call = lambda inputs, **kwargs: (
        seen.append(inputs["input_word_ids"].shape) or call(inputs, **kwargs)
    )
    long = " ".join(TEXTS)
    tokens = piece_tokenizer(tf.constant([long])).to_list()[0]
    logits = model.predict([long, "a"], verbose=0)
    assert {shape[1] for shape in seen} == {12}
    ids = tf.constant([[2, *tokens[:10], 3]])
    np.testing.assert_allclose(logits[0], call({"input_word_ids": ids})["logits"][0], atol=1e-5)
    np.testing.assert_allclose(logits[1], by_hand(model.classifier, piece_tokenizer, "a"), atol=1e-5)


def test_it_learns_and_tells_how_well(fresh):
    model = fresh()
    model.compile(keras.optimizers.Adam(3e-3))
    history = model.fit(
        TEXTS, LABELS, batch_size=5, epochs=15, validation_data=(TEXTS[:4], NAMES[:1] * 4), verbose=0
    )
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    figures = model.evaluate(TEXTS, [NAMES[label] for label in LABELS], return_dict=True, verbose=0)
    logits = model.predict(TEXTS, verbose=0)
    log_probs = tf.nn.log_softmax(logits).numpy()[np.arange(len(TEXTS)), LABELS]
    assert figures["loss"] == pytest.approx(-log_probs.mean(), rel=1e-4)
    assert figures["accuracy"] == pytest.approx(np.mean(logits.argmax(axis=1) == LABELS))
    assert len(history.history["val_accuracy"]) == 15


@pytest.mark.parametrize(
    ("form", "place"), [("pairs", "bfloat16"), pytest.param("tf.data", "mirrored", marks=pytest.mark.slow)]
)
def test_forms_in_mixed_precision_and_on_two_replicas(form, place, fresh, two_replicas):
    texts = (TEXTS, TEXTS[::-1]) if form == "pairs" else TEXTS
    x, y = (batches(TEXTS, LABELS), None) if form == "tf.data" else (texts, np.array(LABELS))
    scope = two_replicas.scope() if place == "mirrored" else tf.device("CPU:0")
    with scope:
        model = fresh(dtype="mixed_bfloat16" if place == "bfloat16" else None)
        model.compile(keras.optimizers.Adam(1e-3))
    before = model.classifier.classifier.output_weights.numpy()
    kwargs = {} if y is None else {"batch_size": 10}
    losses = model.fit(x, y, epochs=2, verbose=0, **kwargs).history["loss"]
    assert np.isfinite(losses).all()
    assert np.abs(model.classifier.classifier.output_weights.numpy() - before).max() > 1e-4
    assert model.predict(x, verbose=0).dtype == np.float32
    if place == "bfloat16":
        assert model.classifier.encoder.compute_dtype == "bfloat16"


def test_regression(fresh, tmp_path):
    model = fresh(labels=None, num_labels=1)
    model.compile("adam")
    targets = np.linspace(-1, 1, len(TEXTS))
    model.fit(TEXTS, targets, verbose=0)
    loss = model.evaluate(TEXTS, targets, verbose=0)
    scores = model.predict(TEXTS, verbose=0)
    assert scores.shape == (len(TEXTS), 1)
    assert loss == pytest.approx(np.mean((scores[:, 0] - targets) ** 2), rel=1e-4)
    model.save_run(tmp_path / "run")
    found = albert_tf.pipeline(tmp_path / "run", "regression")(TEXTS)
    assert [x["score"] for x in found] == pytest.approx(scores[:, 0].tolist(), abs=1e-5)
    again = albert_tf.TextClassifier.from_run(tmp_path / "run")
    np.testing.assert_allclose(again.predict(TEXTS, verbose=0), scores, atol=1e-5)


def test_regression_begins_at_the_mean(fresh, made):
    """Once, and not where the head has learnt already."""
    model = fresh(labels=None, num_labels=1)
    model.compile(keras.optimizers.SGD(0.0))
    bias = model.classifier.classifier.output_bias
    for targets, expected in ((np.linspace(90, 110, len(TEXTS)), 100), (np.zeros(len(TEXTS)), 100)):
        model.fit(TEXTS, targets, verbose=0)
        assert bias.numpy() == pytest.approx([expected])
    learnt = albert_tf.TextClassifier.from_run(made("regression").run)
    before = learnt.classifier.classifier.output_bias.numpy()
    learnt.compile(keras.optimizers.SGD(0.0))
    learnt.fit((TEXTS, TEXTS), np.linspace(90, 110, len(TEXTS)), verbose=0)
    assert learnt.classifier.classifier.output_bias.numpy() == before != 100


def test_training_and_saving_warn_of_nothing(fresh, tmp_path, caplog):
    model = fresh(pooling="mean")
    before = model.get_weights()
    model.compile(keras.optimizers.Adam(1e-2))
    caplog.clear()
    model.fit(TEXTS, LABELS, batch_size=len(TEXTS), verbose=0)
    model.save(tmp_path / "model.keras")
    model.save(tmp_path / "folder")
    warnings = [record.getMessage() for record in caplog.records if record.levelname != "INFO"]
    # TensorFlow counts the models that the tests before this one have traced.
    assert [message for message in warnings if "retracing" not in message] == []
    names = [weight.name for weight in fresh(pooling="first").weights]
    assert [weight.name for weight in model.weights] == names
    for name in ("model.keras", "folder"):
        again = albert_tf.TextClassifier.load(tmp_path / name)
        for there, here in zip(again.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(there, here)
    is_same = {n: np.array_equal(*two) for n, *two in zip(names, before, model.get_weights(), strict=True)}
    assert {name for name, same in is_same.items() if same} == {
        "pooler/dense/kernel:0",
        "pooler/dense/bias:0",
    }


def test_saved_and_loaded(fresh, tmp_path):
    model = fresh(seq_length=48)
    model.compile(keras.optimizers.Adam(1e-3))
    model.fit(TEXTS, LABELS, verbose=0)  # called with token ids first
    expected = model.predict(TEXTS, verbose=0)
    model.save(tmp_path / "saved_model")
    again = albert_tf.TextClassifier.load(tmp_path / "saved_model")
    assert (again.labels, again.seq_length) == (("sea", "bread"), 48)
    np.testing.assert_allclose(again.predict(TEXTS, verbose=0), expected, atol=1e-5)
    again.fit(TEXTS, [NAMES[label] for label in LABELS], verbose=0)
    raw = tf.saved_model.load(str(tmp_path / "saved_model"))
    (logits,) = raw.signatures["serving_default"](text=tf.constant(TEXTS)).values()
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def batches(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(5)


def test_labels_of_any_form_are_learned_alike(fresh):
    """By number or name, in a list or a dataset, and one-hot with a categorical loss."""
    named, hot = [NAMES[label] for label in LABELS], np.eye(2, dtype=np.float32)[LABELS]
    categorical = keras.losses.CategoricalCrossentropy(from_logits=True)
    weights = tf.zeros([2, SMALL.hidden_size])  # of the same head each time

    def loss(x, y=None, **settings):
        model = fresh(classifier_dropout=0.0)
        model.classifier.classifier.output_weights.assign(weights)
        model.compile(keras.optimizers.SGD(0.5), **settings)
        model.fit(x, y, batch_size=None if y is None else 5, shuffle=False, verbose=0)
        return model.evaluate(x, y, verbose=0)[0]

    expected = loss(TEXTS, LABELS)
    assert expected != pytest.approx(np.log(2), abs=1e-4)
    assert loss(batches(TEXTS, named)) == pytest.approx(expected, rel=1e-4)
    metrics = ["accuracy", keras.metrics.AUC(from_logits=True)]
    assert loss(TEXTS, hot, loss=categorical, metrics=metrics) == pytest.approx(expected, rel=1e-4)


def test_labels_and_metrics_that_do_not_fit_the_loss(fresh):
    model, hot = fresh(), np.eye(2, dtype=np.float32)[LABELS]
    for metrics in (["AUC"], [keras.metrics.AUC()], [keras.metrics.AUC(from_logits=True)], ["Precision"]):
        with pytest.raises(InputError, match="metrics"):
            model.compile(metrics=metrics)
    model.compile()
    for form in ((TEXTS, hot), (batches(TEXTS, hot),)):
        with pytest.raises(InputError, match=r"[xy] has the shape \((20|None), 2\)"):
            model.fit(*form)
    for function in (model.fit, model.evaluate, model.predict):
        with pytest.raises(InputError, match=r"^x: label 'für' is none of 'sea', 'bread'$"):
            function(batches(["a", "b"], ["sea", "für"]), verbose=0)
    with pytest.raises(InputError, match=r"^validation_data: label 'land'"):
        model.fit(["a"], [0], validation_data=batches(["a"], ["land"]), verbose=0)
    nameless = fresh(labels=None, num_labels=2)
    nameless.compile()
    with pytest.raises(InputError, match="x has labels by name"):
        nameless.fit(batches(["a"], ["sea"]))


def test_a_dataset_of_no_batches(classifier):
    classifier.compile()
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)
    labels = tf.data.Dataset.from_tensor_slices(LABELS)
    ids = texts.map(lambda _: {"input_word_ids": [2, 3], "input_mask": [1, 1]})
    pairs = texts.map(lambda text: tf.stack([text, text]))
    for x in (texts, ids, pairs):
        with pytest.raises(InputError, match="x is an unbatched"):
            classifier.fit(tf.data.Dataset.zip((x, labels)))
    with pytest.raises(InputError, match="validation_data is an unbatched"):
        classifier.fit(TEXTS, LABELS, validation_data=tf.data.Dataset.zip((texts, labels)))
    with pytest.raises(InputError, match="x is an unbatched"):
        classifier.predict(texts)


def test_two_lists_of_two_are_ambiguous(fresh):
    """Two pairs, or two columns as Keras has them: the answers would depend on the number of rows."""
    model = fresh()
    with pytest.raises(InputError, match=r"^x:"):
        model.predict([["a", "b"], ["c", "d"]])
    pairs = model.predict([("a", "b"), ("c", "d")], verbose=0)
    np.testing.assert_allclose(model.predict((["a", "c"], ["b", "d"]), verbose=0), pairs, atol=1e-6)


def test_a_model_of_pairs_answers_no_single_texts(fresh, tmp_path):
    model = fresh()
    assert model.takes_pairs is None
    model.compile()
    with pytest.raises(InputError, match="y"):
        model.fit((TEXTS, TEXTS), [5] * len(TEXTS))
    assert model.takes_pairs is None  # nothing was learned
    model.fit((TEXTS, TEXTS), LABELS, verbose=0)
    expected = model.predict((TEXTS, TEXTS), verbose=0)
    model.save(tmp_path / "folder")
    model.save_run(tmp_path / "run")
    again = albert_tf.TextClassifier.load(tmp_path / "folder")
    for other in (model, again):
        np.testing.assert_allclose(
            other.predict(list(zip(TEXTS, TEXTS, strict=True)), verbose=0), expected, atol=1e-5
        )
        for function in (other, other.predict):
            with pytest.raises(InputError, match=r"^(x|inputs) holds single texts"):
                function(TEXTS)
    for source in (model, tmp_path / "run"):
        with pytest.raises(InputError, match="trained on pairs"):
            albert_tf.pipeline(source)("a boat")
    for form in ((TEXTS, LABELS), (batches(TEXTS, LABELS),)):
        with pytest.raises(InputError, match=r"^x holds single texts"):
            model.evaluate(*form)
    with pytest.raises(InputError, match=r"^validation_data.* holds single texts"):
        model.fit((TEXTS, TEXTS), LABELS, validation_data=(TEXTS, LABELS))
    model.fit(batches(TEXTS, LABELS), verbose=0)  # what it learns last is what it answers
    with pytest.raises(InputError, match=r"^x holds pairs of texts: the model learned single texts"):
        model.predict((TEXTS, TEXTS))


def test_as_a_run(fresh, piece_tokenizer, tmp_path):
    model = fresh()
    expected = model.predict(TEXTS, verbose=0)
    scores = np.exp(expected) / np.exp(expected).sum(axis=1, keepdims=True)
    model.save_run(tmp_path / "run")
    trained = read_trained(tmp_path / "run")
    task = trained.entries
    assert (task["task"], task["labels"], task["seq_length"]) == ("classification", NAMES, 64)
    assert (tmp_path / "run/spiece.model").read_bytes() == piece_tokenizer.vocabulary.model
    served = Served(trained.model, trained.tokenizer, 64, task)
    _save_serving(served, serving_signatures(served), tmp_path / "serving/1")
    for source in ("run", "serving"):
        found = albert_tf.pipeline(tmp_path / source)(TEXTS)
        assert [x["label"] for x in found] == [NAMES[row.argmax()] for row in scores]
        assert [x["score"] for x in found] == pytest.approx(scores.max(axis=1).tolist(), abs=1e-5)
    model.save_run(tmp_path / "run", step=3)
    with pytest.raises(FileExistsError, match="a checkpoint of step 3: name another step, or another folder"):
        model.save_run(tmp_path / "run", step=3)
    with pytest.raises(NotADirectoryError, match="is not a folder\\): name another place"):
        model.save_run(tmp_path / "run/config.json/run")


def test_where_weights_begin(made, fresh, tmp_path):
    """The encoder is the run's; the head is, too, where the labels are."""
    run, source = made("classification").run, made("classification").model
    names = ["no", "yes", "é"]

    def same(model):
        pairs = zip(model.classifier.variables, source.variables, strict=True)
        return [one.shape == other.shape and np.array_equal(one, other) for one, other in pairs]

    build = albert_tf.TextClassifier.from_pretrained
    for settings in ({}, {"num_labels": 3}, {"labels": names}):
        assert all(same(build(run, **settings)))
        assert build(run, **settings).labels == tuple(names)
        assert build(run, **settings).seq_length == 32
    for settings in ({"num_labels": 2}, {"labels": names[::-1]}):
        *encoder, weights, _ = same(build(run, **settings))
        assert all(encoder)
        assert not weights
    config = build(run, dropout=0.3, classifier_dropout=0.2).classifier.config
    assert config == SMALL.replace(
        hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3, classifier_dropout_prob=0.2
    )
    assert fresh().classifier.config.hidden_dropout_prob == 0.0
    assert fresh().classifier.config.classifier_dropout_prob == 0.1


def test_the_mean_of_the_states(fresh, piece_tokenizer, tmp_path, caplog):
    """A new head reads it where it is asked for, and goes on with it; one of another pooling is left."""
    model = fresh(pooling="mean")
    weights, bias = model.classifier.classifier.weights
    weights.assign(tf.random.stateless_normal(weights.shape, [1, 2]))
    ids = [[2, *piece_tokenizer(tf.constant([text])).to_list()[0], 3] for text in TEXTS]
    states = [model.classifier.encoder({"input_word_ids": tf.constant([x])})["sequence_output"] for x in ids]
    means = np.stack([rows.numpy()[0].mean(axis=0) for rows in states])
    expected = means @ weights.numpy().T + bias.numpy()
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), expected, atol=1e-5)
    model.save(tmp_path / "model.keras")
    again = albert_tf.TextClassifier.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again.predict(TEXTS, verbose=0), expected, atol=1e-5)
    model.save_run(tmp_path / "run")
    caplog.clear()
    build = albert_tf.TextClassifier.from_run
    for settings in ({}, {"pooling": "mean"}):
        again = build(tmp_path / "run", **settings)
        np.testing.assert_allclose(again.predict(TEXTS, verbose=0), expected, atol=1e-5)
    assert "which is left" not in caplog.text
    other = build(tmp_path / "run", pooling="first")
    assert np.abs(other.classifier.classifier.output_weights - weights).max() > 0.1
    assert "pooling=mean, which is left: that of ['sea', 'bread'], pooling=first, begins" in caplog.text
    with pytest.raises(InputError, match="pooling='max' is none of first, mean"):
        build(tmp_path / "run", pooling="max")


def test_from_hub(made, tiny_vocabulary, tmp_path):
    source = made("classification")
    _save_module(encoder_module(source.model, tiny_vocabulary), tmp_path / "encoder")
    assets = tmp_path / "encoder/assets"
    (assets / "albert_config.json").write_text((source.run / "config.json").read_text())
    model = albert_tf.TextClassifier.from_hub(tmp_path / "encoder", num_labels=2)
    ids = {"input_word_ids": tf.constant([[2, 8, 9, 3]])}
    np.testing.assert_allclose(
        model.classifier.encoder(ids)["pooled_output"], source.model.encoder(ids)["pooled_output"], atol=1e-5
    )
    assert model.predict(["a"], verbose=0).shape == (1, 2)
    assert model.classifier.pooling == "first"
    model = albert_tf.TextClassifier.from_hub(tmp_path / "encoder", num_labels=2, pooling="mean")
    assert model.classifier.pooling == "mean"
    with pytest.raises(InputError, match="folder='none' is not an exported encoder"):
        albert_tf.TextClassifier.from_hub("none", num_labels=2)


WRONG_DATA = [
    ("a", [0], "x='a' is one text: a list of texts is needed"),
    ([], [], "x holds no texts"),
    (["a", None], [0, 1], r"x\[1\]=None is not a text"),
    (["a", float("nan")], [0, 1], r"x\[1\]=nan is not a text"),
    (np.array([1, 2]), [0, 1], r"x\[0\]=1 is not a text"),
    ((["a", "b"], ["c"]), [0, 1], "x holds 2 first texts and 1 second ones"),
    ((["a", "b"], ["c", 4]), [0, 1], r"x\[1\]\[1\]=4 is not a text"),
    ([("a", "b"), "c"], [0, 1], r"x\[1\]='c' is not a pair of texts"),
    (["a", "b"], [0], "y holds 1 labels for 2 texts"),
    (["a", "b"], [0, 2], r"y\[1\]=2 is none of 0, 1"),
    (["a", "b"], [0, 0.5], r"y\[1\]=0.5 is none of 0, 1"),
    (["a", "b"], [0, None], r"y\[1\]=None is none of 0, 1"),
    (["a", "b"], [0, float("nan")], r"y\[1\]=nan is none of 0, 1"),
    (["a", "b"], ["sea", "land"], r"y\[1\]='land' is none of 'sea', 'bread'"),
    (None, [0], "x=None is not a list of texts"),
    (5, [0], "x=5 is not a list of texts"),
    (b"a", [0], "x=b'a' is one text: a list of texts is needed"),
    ({"a"}, [0], "{'a'} is a set, which has no order: give a list"),
    ({"text": ["a"]}, [0], "input_word_ids, input_mask not among the inputs text: a dict is of token ids"),
    (np.array(["a", None], object), [0, 1], r"x\[1\]=None is not a text"),
    (np.array([["a", "b"], ["c", float("nan")]], object), [0, 1], r"x\[1\]\[1\]=nan is not a text"),
    (["a", "b"], None, "y=None: the labels of 2 texts are needed, in a list"),
    (["a", "b"], "ab", "y='ab': the labels of 2 texts are needed"),
    (["a", "b"], np.array(["sea", None], object), r"y\[1\]=None is none of 'sea', 'bread'"),
    (["a", "b"], [[0, 1, 0], [1, 0, 0]], r"y has the shape \(2, 3\): it must be \[2\]"),
]


@pytest.mark.parametrize(("x", "y", "message"), WRONG_DATA)
def test_what_is_not_data(x, y, message, classifier):
    classifier.compile("adam")
    with pytest.raises(InputError, match=message):
        classifier.fit(x, y)
    with pytest.raises(InputError, match=message):
        classifier.evaluate(x, y)
    if message[0] != "y":
        with pytest.raises(InputError, match=message):
            classifier.predict(x)
    with pytest.raises(
        InputError,
        match=message.replace("x", "validation_data\\[0\\]", 1)
        if message[0] == "x"
        else message.replace("y", "validation_data\\[1\\]", 1),
    ):
        classifier.fit(["a"], [0], validation_data=(x, y))


@pytest.mark.parametrize("labels", [None, ["good", "bad"]])
def test_a_head_that_is_left_is_told(fresh, tmp_path, caplog, labels):
    trained = fresh(labels=["bad", "good"])
    trained.save_run(tmp_path / "run")
    caplog.clear()
    model = albert_tf.TextClassifier.from_run(tmp_path / "run", labels=labels)
    before, after = (each.classifier.classifier.output_weights.numpy() for each in (trained, model))
    is_kept = labels in (None, ["bad", "good"])
    assert is_kept == np.array_equal(before, after)
    said = (
        "has a head of 2 labels, ['bad', 'good'], pooling=first, which is left: "
        f"that of {labels}, pooling=first, begins at random"
    )
    assert is_kept != (said in caplog.text)


def test_what_does_not_fit(made, fresh, classifier, tmp_path):
    run = made("fill_mask").run
    build = albert_tf.TextClassifier.from_run
    with pytest.raises(
        InputError, match=r"num_labels is missing: .*run is not of a classifier: say how many"
    ):
        build(run)
    with pytest.raises(
        InputError, match=r"run='.*' is not a run directory: that has config\.json and task\.json"
    ):
        build(tmp_path, num_labels=2)
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    with pytest.raises(InputError, match=r"run='.*' is not a run directory but a checkpoint of Hugging Face"):
        build(tmp_path, num_labels=2)
    with pytest.raises(
        InputError, match="name='albert-none': albert-none is neither a path here nor a published"
    ):
        albert_tf.TextClassifier.from_pretrained("albert-none", num_labels=2)
    with pytest.raises(InputError, match=r"labels=\['a', 'a'\] must be 2 different names"):
        build(run, labels=["a", "a"])
    with pytest.raises(InputError, match=r"labels\[0\]=0 is not a text"):
        build(run, labels=[0, 1])
    with pytest.raises(InputError, match=r"labels=\['a'\]: a network of num_labels=1 gives a number"):
        build(run, labels=["a"])
    with pytest.raises(InputError, match="num_labels=0"):
        build(run, num_labels=0)
    with pytest.raises(InputError, match="seq_length=65 is more than max_position_embeddings=64"):
        build(run, num_labels=2, seq_length=65)
    with pytest.raises(InputError, match=r"path='none\.keras' is not a saved model"):
        albert_tf.TextClassifier.load("none.keras")
    classifier.classifier.save(tmp_path / "other.keras")
    with pytest.raises(InputError, match="holds another model than a TextClassifier"):
        albert_tf.TextClassifier.load(tmp_path / "other.keras")
    with pytest.raises(InputError, match=r"inputs are int32 of the shape \(3,\): texts are string"):
        classifier(tf.constant([1, 2, 3]))
    with pytest.raises(InputError, match=r"inputs have the shape \(1, 3\): texts are string \[B\], pairs"):
        classifier(tf.constant([["a", "b", "c"]]))
    for value, said in ((None, "None"), (5, "5"), ("", "''")):
        for function in (build, albert_tf.TextClassifier.load, albert_tf.TextClassifier.from_hub):
            with pytest.raises(InputError, match=f"(run|path|folder)={said} is not a path"):
                function(value)
        with pytest.raises(InputError, match=f"run={said} is not a path"):
            classifier.save_run(value)
    with pytest.raises(InputError, match="labels='ab' is not a list of names"):
        build(run, labels="ab")
    with pytest.raises(InputError, match=r"labels=\{'a': 0, 'b': 1\} is not a list of names"):
        build(run, labels={"a": 0, "b": 1})
    with pytest.raises(InputError, match="num_labels=True must be a whole number"):
        build(run, num_labels=True)
    for value in ("8", 8.5, None):
        with pytest.raises(InputError, match=f"seq_length={value!r} must be a whole number of at least 4"):
            build(run, num_labels=2, seq_length=value)
    with pytest.raises(InputError, match="nofile is not a file: the vocabulary is missing"):
        build(run, num_labels=2, vocabulary="nofile")
    for value in (["a", None], np.array(["a", None], object)):
        with pytest.raises(InputError, match=r"^inputs\[1\]=None is not a text"):
            classifier(value)
    with pytest.raises(InputError, match=r"^input_word_ids, input_mask not among the inputs text"):
        classifier({"text": ["a"]})
    with pytest.raises(InputError, match="validation_data must be a tuple"):
        classifier.fit(["a"], [0], validation_data=["a"])
    texts = tf.data.Dataset.from_tensor_slices(["a"]).batch(1)
    for settings in ({"x": texts}, {"x": ["a"], "y": [0], "validation_data": texts}):
        with pytest.raises(
            InputError, match=r"a tf\.data\.Dataset with labels gives batches of \(texts, lab"
        ):
            classifier.fit(**settings)
    with pytest.raises(InputError, match="in which the labels stand beside the texts"):
        classifier.fit(texts.map(lambda text: (text, 0)), [0])
    with pytest.raises(InputError, match="input_word_ids, input_mask not among the inputs text"):
        classifier.predict(texts.map(lambda text: {"text": text}))
    regression = fresh(labels=None, num_labels=1)
    with pytest.raises(InputError, match=r"y\[1\]=inf is not a finite number"):
        regression.fit(["a", "b"], [0.5, float("inf")])


def test_what_is_cut_and_what_is_unknown_is_told(fresh, piece_tokenizer, caplog):
    model = fresh(seq_length=28)
    model.compile()
    lengths = [len(ids) for ids in piece_tokenizer(tf.constant(TEXTS)).to_list()]
    cut = [length - 26 for length in lengths if length > 26]
    assert 0 < len(cut) < len(TEXTS)
    caplog.clear()
    model.fit(TEXTS, LABELS, verbose=0)
    (line,) = [line for line in caplog.messages if "seq_length=28" in line]
    assert f"{len(cut)} of {len(TEXTS)}" in line and f"{sum(cut) / sum(lengths):.1%}" in line
    assert "unknown" not in caplog.text
    caplog.clear()
    model.fit(["щука", "ёж"], [0, 1], verbose=0)
    assert "unknown to the vocabulary" in caplog.text and "seq_length" not in caplog.text
