"""Texts to logits: trained, asked, saved and loaded as a Keras model, and against the model by hand."""

import collections
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from sklearn.metrics import f1_score, fbeta_score

import albert_tf
from albert_tf.errors import InputError, MissingFileError
from albert_tf.filesystem import write_json
from albert_tf.finetuning.finetuned_model import load_finetuned
from albert_tf.inference import text_classifier
from albert_tf.inference.inputs import LabelEncoder, parse_texts
from albert_tf.models.padding import TokenIndex
from albert_tf.runs.run_directory import SUMMARY_FILE, RunDirectory
from hub_export.modules import encoder_module
from tests.albert_tf.inference.conftest import KINDS, SMALL
from tests.tiny import DOCUMENTS, TINY, change_json

# The first document is about a lighthouse and the second about bread.
TEXTS = [text for document in DOCUMENTS[:2] for text in document]
LABELS = [number for number, document in enumerate(DOCUMENTS[:2]) for _ in document]
NAMES = ["sea", "bread"]
EAGER = {"run_eagerly": True}  # what needs no graph is quicker without one
CATEGORICAL = keras.losses.CategoricalCrossentropy(from_logits=True)


@pytest.fixture(scope="module")
def classifier(made):
    """A model that no test trains; its head is large, for answers to differ."""
    model = albert_tf.TextClassifier.from_pretrained(made("fill_mask").run, labels=NAMES)
    weights = model.classifier.classifier.output_weights
    weights.assign(tf.random.stateless_normal(weights.shape, [1, 2]))
    model.compile(**EAGER)
    return model


@pytest.fixture
def fresh(made):
    """A model of its own for a test, and others like it."""
    run = made("fill_mask").run  # now: a test may look at what is traced when it calls this
    return lambda **settings: albert_tf.TextClassifier.from_pretrained(run, **{"labels": NAMES, **settings})


def by_hand(model, tokenizer, text, pair=None):
    """The logits of one text, unpadded."""
    segments = [tokenizer(tf.constant([part])).to_list()[0] for part in (text, pair) if part is not None]
    words = [2, *(token for segment in segments for token in (*segment, 3))]
    types = [number for number, segment in enumerate(segments) for _ in (*segment, 3)]
    inputs = {"input_word_ids": [words], "input_type_ids": [[0, *types]]}
    return model({name: tf.constant(rows) for name, rows in inputs.items()})["logits"][0]


def test_padding_is_skipped_but_in_training_and_where_all_is_padded(fresh, monkeypatch):
    from_positions, found = TokenIndex.from_positions, []
    monkeypatch.setattr(
        TokenIndex,
        "from_positions",
        staticmethod(lambda *index: found.append(index) or from_positions(*index)),
    )
    model = fresh()
    model(TEXTS[:2], training=True)
    fresh(pad_to_length=True)(TEXTS[:2])
    assert not found
    model(TEXTS[:2])
    assert found


def test_logits_by_hand(classifier, piece_tokenizer):
    expected = [by_hand(classifier.classifier, piece_tokenizer, text) for text in TEXTS]
    batches = tf.data.Dataset.from_tensor_slices(TEXTS).batch(3)
    texts = tf.constant(TEXTS)
    for form in (TEXTS, np.array(TEXTS)[:, np.newaxis], texts, batches):
        np.testing.assert_allclose(classifier.predict(form, batch_size=5, verbose=0), expected, atol=1e-5)
    for form in (TEXTS, texts, texts[:, tf.newaxis]):
        np.testing.assert_allclose(classifier(form), expected, atol=1e-5)
    text = keras.Input([], dtype=tf.string)
    whole = keras.Model(text, tf.nn.softmax(classifier(text)))
    np.testing.assert_allclose(whole(texts), tf.nn.softmax(expected), atol=1e-5)
    assert np.ptp([row[0] - row[1] for row in expected]) > 0.1


def test_compiled_by_xla_it_predicts_the_same(classifier, fresh, monkeypatch):
    expected = classifier.predict(TEXTS, verbose=0)
    model = fresh(xla=True)
    model.set_weights(classifier.get_weights())
    monkeypatch.setattr(TokenIndex, "from_positions", None)
    for data in (TEXTS, tf.data.Dataset.from_tensor_slices(TEXTS).batch(3)):
        np.testing.assert_allclose(model.predict(data, batch_size=3, verbose=0), expected, atol=1e-5)


@pytest.mark.slow
def test_it_learns_in_steps_that_keras_compiles(fresh):
    keras.utils.set_random_seed(0)
    model = fresh()
    model.compile(keras.optimizers.Adam(3e-3), jit_compile=True)
    losses = model.fit(TEXTS, LABELS, batch_size=len(TEXTS), epochs=9, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]
    np.testing.assert_allclose(
        model.predict(TEXTS, batch_size=len(TEXTS), verbose=0), model(TEXTS), atol=1e-5
    )


def test_pairs_by_hand(classifier, piece_tokenizer):
    pairs = [("the lamp", "a hat"), ("salt", "the dough is ready"), ("a", "b")]
    expected = [by_hand(classifier.classifier, piece_tokenizer, *pair) for pair in pairs]
    first, second = (list(column) for column in zip(*pairs, strict=True))
    columns = (tf.constant(first), tf.constant(second))
    batches = tf.data.Dataset.from_tensor_slices((columns, [0, 1, 0])).batch(2)
    for form in ((first, second), pairs, np.array(pairs), batches):
        np.testing.assert_allclose(classifier.predict(form, verbose=0), expected, atol=1e-5)
    for form in (columns, tf.constant(pairs), pairs):
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


def batches(*columns):
    return tf.data.Dataset.from_tensor_slices(columns).batch(5)


@pytest.mark.slow
def test_trained_saved_and_loaded(fresh, tmp_path, caplog):
    """Learns, tells how well, and is the same as a SavedModel, as `.keras` and as a run."""
    model = fresh(seq_length=48)
    model.compile(keras.optimizers.Adam(3e-3))
    caplog.clear()
    history = model.fit(
        TEXTS, LABELS, batch_size=5, epochs=15, validation_data=(TEXTS[:4], NAMES[:1] * 4), verbose=0
    )
    assert history.history["loss"][-1] < 0.5 * history.history["loss"][0]
    assert len(history.history["val_accuracy"]) == 15
    metrics = model.evaluate(TEXTS, [NAMES[label] for label in LABELS], return_dict=True, verbose=0)
    expected = model.predict(TEXTS, verbose=0)
    log_probs = tf.nn.log_softmax(expected).numpy()[np.arange(len(TEXTS)), LABELS]
    assert metrics["loss"] == pytest.approx(-log_probs.mean(), rel=1e-4)
    assert metrics["accuracy"] == pytest.approx(np.mean(expected.argmax(axis=1) == LABELS))
    for name in ("model.keras", "folder"):
        model.save(tmp_path / name)
    warnings = [record.getMessage() for record in caplog.records if record.levelname != "INFO"]
    # TensorFlow counts the models that the tests before this one have traced.
    assert [message for message in warnings if "retracing" not in message] == []
    for name in ("model.keras", "folder"):
        again = albert_tf.TextClassifier.load(tmp_path / name)
        assert (again.labels, again.seq_length, again.takes_pairs) == (("sea", "bread"), 48, False)
        np.testing.assert_allclose(again.predict(TEXTS, verbose=0), expected, atol=1e-5)
    again.fit(batches(TEXTS, LABELS), verbose=0)
    raw = tf.saved_model.load(str(tmp_path / "folder"))
    (logits,) = raw.signatures["serving_default"](text=tf.constant(TEXTS)).values()
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    model.save_run(tmp_path / "run")
    entries = load_finetuned(tmp_path / "run").entries
    assert (entries["task"], entries["labels"], entries["seq_length"]) == ("classification", NAMES, 48)
    found = albert_tf.pipeline(tmp_path / "run")(TEXTS)
    assert [x["label"] for x in found] == [NAMES[row.argmax()] for row in expected]
    with pytest.raises(FileExistsError, match="ckpt-0"):
        model.save_run(tmp_path / "run")


def test_pairs_in_mixed_precision(fresh):
    model = fresh(dtype="mixed_bfloat16")
    model.compile(keras.optimizers.Adam(1e-3), **EAGER)
    before = model.classifier.classifier.output_weights.numpy()
    losses = model.fit((TEXTS, TEXTS[::-1]), np.array(LABELS), epochs=2, verbose=0).history["loss"]
    assert np.isfinite(losses).all()
    assert np.abs(model.classifier.classifier.output_weights.numpy() - before).max() > 1e-4
    assert model((TEXTS, TEXTS)).dtype == np.float32
    assert model.classifier.encoder.compute_dtype == "bfloat16"


@pytest.mark.slow
def test_a_dataset_on_two_replicas(fresh, two_replicas):
    with two_replicas.scope():
        model = fresh()
        model.compile(keras.optimizers.Adam(1e-3))
    assert np.isfinite(model.fit(batches(TEXTS, LABELS), epochs=2, verbose=0).history["loss"]).all()
    assert model.predict(batches(TEXTS), verbose=0).shape == (len(TEXTS), 2)


def test_regression_begins_at_the_mean(fresh, made, tmp_path):
    """Once, and not where the head has learnt already."""
    model = fresh(labels=None, num_labels=1)
    model.compile(keras.optimizers.SGD(0.0), **EAGER)
    bias = model.classifier.classifier.output_bias
    for values, expected in ((np.linspace(90, 110, len(TEXTS)), 100), (np.zeros(len(TEXTS)), 100)):
        model.fit(TEXTS, values, verbose=0)
        assert bias.numpy() == pytest.approx([expected])
    scores = model.predict(TEXTS, verbose=0)
    assert scores.shape == (len(TEXTS), 1)
    assert np.isnan(model.score(TEXTS[:1], [1.0]))  # R² needs two
    model.save_run(tmp_path / "run")
    found = albert_tf.pipeline(tmp_path / "run", "regression")(TEXTS)
    assert [x["score"] for x in found] == pytest.approx(scores[:, 0].tolist(), rel=1e-5)
    with pytest.raises(InputError, match=r"\[1\]=inf"):
        model.fit(["a", "b"], [0.5, float("inf")])
    assert not albert_tf.TextClassifier.from_pretrained(made("regression").run)._begins_at_mean


@pytest.mark.slow
def test_labels_of_any_form_are_learned_alike(fresh):
    """By number or name, in a list or a dataset, and one-hot with a categorical loss."""
    named, hot = [NAMES[label] for label in LABELS], np.eye(2, dtype=np.float32)[LABELS]
    datasets = [(batches(TEXTS, LABELS),), (batches(TEXTS, named),)]
    losses = []
    for loss, forms in (
        ("auto", [(TEXTS, LABELS), (TEXTS, named)]),
        (CATEGORICAL, [(TEXTS, hot), (TEXTS, named)]),
    ):
        model = fresh()
        model.classifier.classifier.output_weights.assign(tf.ones([2, SMALL.hidden_size]) * [[1.0], [-1.0]])
        model.compile(loss=loss, **EAGER)
        losses += [model.evaluate(*data, verbose=0)[0] for data in forms + datasets]
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)


class Rows:
    """A table of the protocol of Hugging Face's datasets."""

    def __init__(self, **columns):
        self.columns_, self.column_names = columns, list(columns)

    def __getitem__(self, name):
        return collections.UserList(self.columns_[name])  # no list, as a column there is none


def test_columns_of_tables_are_texts_and_pairs(classifier, fresh):
    first, pairs = classifier.predict(TEXTS, verbose=0), list(zip(TEXTS, TEXTS[::-1], strict=True))
    rows = Rows(text=TEXTS, second=TEXTS[::-1], label=LABELS)
    expected = classifier.predict(pairs, verbose=0)
    for table, logits in ((rows["text"], first), (Rows(text=TEXTS), first),
                          (Rows(a=TEXTS, b=TEXTS[::-1]), expected)):  # fmt: skip
        np.testing.assert_array_equal(classifier.predict(table, verbose=0), logits)
    assert classifier.score(rows["text"], rows["label"]) == np.mean(first.argmax(axis=1) == LABELS)
    for table in (rows, Rows(text=TEXTS, label=NAMES)):
        with pytest.raises(InputError, match=r"x has the columns 'text', .*x\['text'\]"):
            classifier.predict(table)
    by_name = [NAMES[label] for label in LABELS]
    with pytest.raises(InputError, match=r"^x: the second texts are the labels: "):  # not pairs to learn from
        classifier.fit(Rows(message=TEXTS, topic=by_name), Rows(topic=by_name)["topic"])

    class Splits(dict):
        """As the DatasetDict of Hugging Face's datasets."""

        column_names: ClassVar = {"train": ["text"], "test": ["text"]}

    for function in (classifier.predict, lambda x: classifier.fit(x, NAMES)):
        with pytest.raises(InputError, match=r"^x holds the datasets train, test: "):
            function(Splits(train=rows, test=rows))
    for function in (classifier.fit, classifier.evaluate):
        with pytest.raises(InputError, match=r"^y is missing"):
            function(TEXTS)
    columns = tf.data.Dataset.from_tensor_slices({"text": TEXTS, "label": LABELS}).batch(2)
    with pytest.raises(InputError, match=r"^x has the columns text, label: .*row\['text'\]"):
        classifier.fit(columns)


def test_a_missing_text_is_an_empty_one(caplog):
    """In lists, such as columns of Hugging Face's datasets are, and in columns of pandas."""
    pandas = pytest.importorskip("pandas")
    for texts in (
        ["a", None, ""],
        pandas.Series(["a", np.nan, ""]),
        pandas.Series(["a", None, ""], dtype="string"),
    ):
        caplog.clear()
        assert [record.text for record in parse_texts(texts, "x")] == ["a", "", ""]
        assert "x: 1 of 3 texts are missing, and read as empty" in caplog.text
    (pair,) = parse_texts([("a", None)], "x")
    assert (pair.text, pair.text_pair) == ("a", "")
    with pytest.raises(InputError, match="None"):
        parse_texts(None, "x")


def test_columns_of_pandas(classifier):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "second": TEXTS[::-1], "label": [NAMES[x] for x in LABELS]})
    right = classifier.score(TEXTS, LABELS)
    assert classifier.score(frame["text"], frame["label"].astype("category")) == right
    assert classifier.score(frame[["text"]], pandas.get_dummies(frame["label"])[NAMES]) == right
    expected = classifier.predict((TEXTS, TEXTS[::-1]), verbose=0)
    np.testing.assert_array_equal(classifier.predict(frame[["text", "second"]], verbose=0), expected)


def test_weights_of_labels_by_name(fresh):
    """The loss is the weighted mean by hand, over the number of texts as Keras has it."""
    log_probs, losses = None, []
    for weights in ({"bread": 3.0}, {0: 1, 1: np.float32(3)}):
        model = fresh(dropout=0.0, classifier_dropout=0.0)
        model.classifier.classifier.output_weights.assign(tf.ones([2, SMALL.hidden_size]) * [[1.0], [-1.0]])
        model.compile(keras.optimizers.SGD(0.0), **EAGER)
        log_probs = tf.nn.log_softmax(model.predict(TEXTS, verbose=0)).numpy()[np.arange(len(TEXTS)), LABELS]
        found = model.fit(TEXTS, LABELS, class_weight=weights, batch_size=100, verbose=0)
        losses += found.history["loss"]
    expected = -(log_probs * np.where(np.array(LABELS) == 1, 3, 1)).mean()
    assert losses == pytest.approx([expected, expected], rel=1e-4)
    counts = np.bincount(LABELS)
    balanced = (log_probs * (len(LABELS) / 2 / counts)[LABELS]).mean()
    found = model.fit(TEXTS, LABELS, class_weight="balanced", batch_size=100, verbose=0)
    assert found.history["loss"] == pytest.approx([-balanced], rel=1e-4)
    hot = np.eye(2, dtype=np.float32)[LABELS]
    assert LabelEncoder(NAMES, 2, None).balanced_weights(hot) == dict(enumerate(len(LABELS) / 2 / counts))


def test_a_number_weighs_all_texts(fresh):
    """The loss is so many times that of the texts without weights."""
    model = fresh(dropout=0.0, classifier_dropout=0.0)
    model.compile(keras.optimizers.SGD(0.0), **EAGER)
    quiet = {"batch_size": 100, "verbose": 0}
    (once,) = model.fit(TEXTS, LABELS, **quiet).history["loss"]
    for weight in (2, 2.5, np.float32(0.5), [3.0] * len(TEXTS)):
        weighted = (TEXTS, LABELS, weight)
        found = model.fit(TEXTS, LABELS, sample_weight=weight, validation_data=weighted, **quiet).history
        assert [*found["loss"], *found["val_loss"]] == pytest.approx(2 * [once * np.mean(weight)], rel=1e-4)
        loss, _ = model.evaluate(TEXTS, LABELS, sample_weight=weight, **quiet)
        assert loss == pytest.approx(once * np.mean(weight), rel=1e-4)
    with pytest.raises(InputError, match=r"sample_weight has the shape \[1\]"):
        model.fit(TEXTS, LABELS, sample_weight=[1.0], **quiet)
    for wrong in (-1, np.nan, "2"):
        with pytest.raises(InputError, match=f"sample_weight={wrong!r}"):
            model.fit(TEXTS, LABELS, sample_weight=wrong, **quiet)
    before = model.get_weights()
    for wrong in (np.nan, -1, np.inf):
        weights = [wrong, *[1.0] * (len(TEXTS) - 1)]
        for given in (weights, np.array(weights)):
            with pytest.raises(InputError, match=rf"sample_weight\[0\]={wrong}"):
                model.fit(TEXTS, LABELS, sample_weight=given, **quiet)
    tf.nest.map_structure(np.testing.assert_array_equal, model.get_weights(), before)


def test_metrics_of_two_labels_are_of_the_second(classifier, fresh, tmp_path):
    weights = classifier.classifier.get_weights()
    right = np.array([0, 1] * len(TEXTS))[: len(TEXTS)]
    logits = classifier.predict(TEXTS, verbose=0)
    probability = tf.nn.softmax(logits).numpy()[:, 1]
    places = np.argsort(np.argsort(probability))
    auc = (places[right == 1].sum() - right.sum() * (right.sum() - 1) / 2) / (right.sum() * (1 - right).sum())
    recall = (probability[right == 1] > 0.5).mean()
    for loss, labels in (("auto", right), (CATEGORICAL, np.eye(2)[right])):
        model = fresh()
        model.classifier.set_weights(weights)
        two = [keras.metrics.AUC(10001, name="auc"), keras.metrics.AUC(10001, from_logits=True, name="other")]
        model.compile(loss=loss, metrics=[*two, "Recall"])
        found = model.evaluate(TEXTS, labels, verbose=0, return_dict=True)
        assert (found["auc"], found["other"]) == pytest.approx((auc, auc), abs=0.02)
        (of_name,) = (value for name, value in found.items() if name.startswith("recall"))
        assert of_name == pytest.approx(recall)
    model.save(tmp_path / "two.keras")
    again = albert_tf.TextClassifier.load(tmp_path / "two.keras")
    assert again.evaluate(TEXTS, labels, verbose=0, return_dict=True) == pytest.approx(found, rel=1e-4)


def test_binary_metrics_are_of_probabilities(fresh, made):
    """Of three labels, or of several for a text: of all probabilities, by hand."""
    softmax, sigmoid = tf.nn.softmax, tf.sigmoid
    for many, loss, probability in ((False, CATEGORICAL, softmax), (True, "auto", sigmoid)):
        model = fresh(labels=["a", "b", "c"], multi_label=many)
        weights = model.classifier.classifier.output_weights
        weights.assign(tf.random.stateless_normal(weights.shape, [1, 2], stddev=3.0))
        model.compile(loss=loss, metrics=[keras.metrics.Precision(), keras.metrics.AUC(from_logits=True)])
        targets = np.eye(3)[np.arange(len(TEXTS)) % 3]
        found = model.evaluate(TEXTS, targets, verbose=0, return_dict=True)
        chosen = probability(model.predict(TEXTS, verbose=0)).numpy() > 0.5
        (precision,) = (value for name, value in found.items() if name.startswith("precision"))
        assert precision == pytest.approx(targets[chosen].mean())
    for labels in (["a", ["b", "c"], []], [[1, 0, 0], [0, 1, 1], [0, 0, 0]]):
        encoded = LabelEncoder("abc", 3, None, True).targets(labels, 3, "y")
        assert encoded.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]
    with pytest.raises(InputError, match=r"y\[0\]='d' is not one of"):
        LabelEncoder("abc", 3, None, True).targets([["d"]], 1, "y")
    assert LabelEncoder("abc", 3, None, True).weights({"c": 2}) == {0: 1, 1: 1, 2: 2}


def spread_logits(model):
    """Moves the head so that the logits of each label over TEXTS have the mean 0 and the deviation 1."""
    weights, bias = model.classifier.classifier.output_weights, model.classifier.classifier.output_bias
    weights.assign(tf.random.stateless_normal(weights.shape, [1, 2]))
    logits = model.predict(TEXTS, verbose=0)
    mean, deviation = logits.mean(axis=0), logits.std(axis=0)
    weights.assign(weights / deviation[:, np.newaxis])
    bias.assign(-mean / deviation)


def test_f_scores_and_accuracies_are_of_probabilities(fresh, tmp_path):
    """Of several labels, as NumPy and scikit-learn compute them; those of a model that was loaded, too."""
    model = fresh(labels=["a", "b", "c"], multi_label=True)
    model.compile(**EAGER)
    spread_logits(model)
    kinds, at = keras.metrics, {"threshold": 0.3}
    scores = [kinds.F1Score("macro", **at), kinds.FBetaScore("micro", 2.0, **at, name="f2")]
    model.compile(metrics=[*scores, kinds.BinaryAccuracy(**at), "accuracy"])
    targets = np.random.default_rng(0).integers(0, 2, [len(TEXTS), 3]).astype(np.float32)
    found = model.evaluate(TEXTS, targets, verbose=0, return_dict=True)
    probabilities = 1 / (1 + np.exp(-model.predict(TEXTS, verbose=0)))
    chosen = probabilities > 0.3
    assert found == pytest.approx(
        {
            "loss": found["loss"],
            "f1_score": f1_score(targets, chosen, average="macro"),
            "f2": fbeta_score(targets, chosen, beta=2, average="micro"),
            "binary_accuracy": (chosen == targets).mean(),
            "accuracy": ((probabilities > 0.5) == targets).mean(),
        }
    )
    model.save(tmp_path / "several.keras")
    again = albert_tf.TextClassifier.load(tmp_path / "several.keras")
    assert again.evaluate(TEXTS, targets, verbose=0, return_dict=True) == pytest.approx(found, rel=1e-4)


def test_f_scores_of_two_labels_are_of_one_hot_rows(fresh):
    right = np.arange(len(TEXTS)) % 2
    model = fresh()
    for metric in (keras.metrics.F1Score(), keras.metrics.FBetaScore(), "F1Score"):
        with pytest.raises(InputError, match=r"F1Score|FBetaScore"):
            model.compile(metrics=[metric])
    model.compile(metrics=[keras.metrics.BinaryAccuracy(threshold=0.3)])
    spread_logits(model)
    logits = model.predict(TEXTS, verbose=0)
    second = 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
    found = model.evaluate(TEXTS, right, verbose=0, return_dict=True)
    assert found["binary_accuracy"] == pytest.approx(((second > 0.3) == right).mean())
    model.compile(loss=CATEGORICAL, metrics=[keras.metrics.F1Score("macro", threshold=0.3)])
    rows = np.eye(2, dtype=np.float32)[right]
    found = model.evaluate(TEXTS, rows, verbose=0, return_dict=True)
    chosen = np.stack([1 - second, second], axis=1) > 0.3
    assert found["f1_score"] == pytest.approx(f1_score(rows, chosen, average="macro"))


def test_a_run_of_other_settings_is_not_gone_on_with(fresh, tmp_path):
    fresh().save_run(tmp_path / "run")
    fresh().save_run(tmp_path / "run", step=1)
    for settings, named in (
        ({"labels": NAMES[::-1]}, r"labels=\['sea', 'bread'\], the model \['bread', 'sea'\]"),
        ({"seq_length": 20}, "seq_length="),
        ({"threshold": 0.3}, "threshold=None, the model 0.3"),
    ):
        with pytest.raises(InputError, match=f"is the run of another model: it has {named}"):
            fresh(**settings).save_run(tmp_path / "run", step=2)
    change_json(tmp_path / "run" / "task.json", best_by="eval_accuracy")
    with pytest.raises(InputError, match="best by its metrics"):
        fresh().save_run(tmp_path / "run", step=2)


def test_what_does_not_fit_in_a_dataset(classifier, fresh):
    for function in (classifier.fit, classifier.predict):
        with pytest.raises(InputError, match=r"^x has labels that are none of sea, bread: \[land\]$"):
            function(batches(["a", "b"], ["sea", "land"]), verbose=0)
        with pytest.raises(InputError, match=r"^x: labels outside 0 to 1: \[7\]$"):
            function(batches(["a", "b"], [1, 7]), verbose=0)
    texts = tf.data.Dataset.from_tensor_slices(TEXTS)
    with pytest.raises(InputError, match="unbatched"):
        classifier.predict(texts)
    ids = batches(TEXTS, LABELS).map(lambda text, label: (classifier._token_ids(text), label)).unbatch()
    with pytest.raises(InputError, match="unbatched"):
        classifier.fit(ids)
    hot = np.eye(2, dtype=np.float32)[LABELS]
    for data in ((TEXTS, hot), (batches(TEXTS, hot),)):
        with pytest.raises(InputError, match="one-hot"):
            classifier.fit(*data)
    three = fresh(labels=[*NAMES, "land"])
    for metric in (keras.metrics.AUC(), keras.metrics.AUC(from_logits=True), "Precision"):
        with pytest.raises(InputError, match="metrics: "):
            three.compile(metrics=[metric])
    for weights in ({"land": 2.0}, {2: 1.0}, {"sea": "much"}, {"sea": -1}, {"sea": 1, 0: 2}, "even"):
        with pytest.raises(InputError, match="class_weight"):
            classifier.fit(TEXTS, LABELS, class_weight=weights)
    with pytest.raises(InputError, match=r"class_weight='balanced' .* array"):
        classifier.fit(batches(TEXTS, LABELS), class_weight="balanced")
    nameless = fresh(labels=None, num_labels=2)
    nameless.compile(**EAGER)
    with pytest.raises(InputError, match="x has labels by name"):
        nameless.fit(batches(["a"], ["sea"]))


def test_a_model_of_pairs_answers_no_single_texts(fresh, tmp_path):
    model = fresh()
    model.compile(**EAGER)
    with pytest.raises(InputError, match="5"):
        model.fit((TEXTS, TEXTS), [5] * len(TEXTS))
    assert model.takes_pairs is None  # nothing was learned
    model.fit((TEXTS, TEXTS), LABELS, verbose=0)
    expected = model.predict((TEXTS, TEXTS), verbose=0)
    model.save(tmp_path / "pairs.keras")
    again = albert_tf.TextClassifier.load(tmp_path / "pairs.keras")
    np.testing.assert_allclose(
        again.predict(list(zip(TEXTS, TEXTS, strict=True)), verbose=0), expected, atol=1e-5
    )
    for function in (again, again.predict, model.predict):
        with pytest.raises(InputError, match=r"^(x|inputs) holds single texts"):
            function(TEXTS)
    with pytest.raises(InputError, match="the model takes a pair"):
        albert_tf.pipeline(model)("a boat")
    with pytest.raises(InputError, match="holds single texts"):
        model.evaluate(batches(TEXTS, LABELS))
    with pytest.raises(InputError, match=r"^validation_data holds single texts"):
        model.fit((TEXTS, TEXTS), LABELS, validation_data=(TEXTS, LABELS))
    model.fit(batches(TEXTS, LABELS), verbose=0)  # what it learns last is what it answers
    with pytest.raises(InputError, match=r"^x holds pairs of texts"):
        model.predict((TEXTS, TEXTS))


def test_where_weights_begin(made, fresh, caplog):
    """The encoder is the run's; the head is, too, where the labels are."""
    run, source = made("classification").run, made("classification").model
    names = ["no", "yes", "é"]

    def same(model):
        pairs = zip(model.classifier.variables, source.variables, strict=True)
        return [one.shape == other.shape and np.array_equal(one, other) for one, other in pairs]

    build = albert_tf.TextClassifier.from_pretrained
    for settings in ({}, {"num_labels": 3}, {"labels": names}):
        model = build(run, **settings)
        assert all(same(model))
        assert (model.labels, model.seq_length) == (tuple(names), 32)
    assert "which is left" not in caplog.text
    for settings in ({"num_labels": 2}, {"labels": names[::-1]}, {"pooling": "mean"}):
        caplog.clear()
        *encoder, weights, _ = same(build(run, **settings))
        assert all(encoder)
        assert not weights
        assert "which is left" in caplog.text
    config = build(run, dropout=0.3, classifier_dropout=0.2).classifier.config
    assert config == SMALL.replace(
        hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3, classifier_dropout_prob=0.2
    )
    assert fresh().classifier.config == SMALL.replace(classifier_dropout_prob=0.1)


@pytest.mark.parametrize("kind", ["classification", "multi_label"])
def test_a_head_that_decides_otherwise_is_left(kind, made, caplog):
    """One label for a text or several: logits of a softmax are no others' of a sigmoid."""
    source, is_multi_label = made(kind), kind == "multi_label"
    learned = source.model.classifier.output_weights.numpy()
    for multi_label, is_kept in ((is_multi_label, True), (not is_multi_label, False)):
        caplog.clear()
        model = albert_tf.TextClassifier.from_pretrained(source.run, multi_label=multi_label)
        assert np.array_equal(model.classifier.classifier.output_weights, learned) == is_kept
        assert ("which is left" in caplog.text) != is_kept
        assert model.labels == tuple(KINDS[kind][1]["labels"])
        assert model.threshold == (0.4 if is_kept and is_multi_label else None)


def test_the_best_run_of_a_folder_elsewhere(made, tiny_vocabulary):
    source, folder = made("classification"), "ram://several"
    task = RunDirectory(source.run).task
    for name, labels in (("seed-0", ["x", "y", "z"]), ("seed-1", task["labels"])):
        albert_tf.save(source.model, f"{folder}/{name}", tiny_vocabulary, task={**task, "labels": labels})
    write_json(f"{folder}/{SUMMARY_FILE}", {"best_run": "seed-1"})
    model = albert_tf.TextClassifier.from_pretrained(folder)
    assert list(model.labels) == task["labels"]


def test_from_hub(made, tiny_vocabulary, tmp_path):
    source = made("classification")
    tf.saved_model.save(encoder_module(source.model, tiny_vocabulary), str(tmp_path / "encoder"))
    assets = tmp_path / "encoder/assets"
    (assets / "albert_config.json").write_text((source.run / "config.json").read_text())
    model = albert_tf.TextClassifier.from_pretrained(f"hub:{tmp_path}/encoder", num_labels=2)
    ids = {"input_word_ids": tf.constant([[2, 8, 9, 3]])}
    np.testing.assert_allclose(
        model.classifier.encoder(ids)["pooled_output"], source.model.encoder(ids)["pooled_output"], atol=1e-5
    )
    assert model(["a"]).shape == (1, 2)


WRONG_DATA = [
    ([], [], "x holds no texts$"),
    ("one text", [0], "x='one text' is not a list"),
    (["a", 5], [0, 1], r"x\[1\]=5"),
    ((["a", "b"], ["c"]), [0, 1], "x holds 2 first texts and 1 second ones"),
    ([("a", "b"), "c"], [0, 1], r"^x\[1\] holds a single text, and the first is a pair"),
    ([["a", "b", "c"], ["d", "e", "f"]], [0, 1, 0], r"x\[0\]"),
    (["a", "b"], [0], "y holds 1 labels for 2 texts"),
    (["a", "b"], [0, 2], r"y\[1\]=2"),
    (["a", "b"], ["sea", "land"], r"y\[1\]='land' .* 'sea', 'bread'"),
    (["a", "b"], [[0, 1, 0], [1, 0, 0]], r"y\[0\]=\[0, 1, 0\]"),
]


@pytest.mark.parametrize(("x", "y", "message"), WRONG_DATA)
def test_what_is_not_data(x, y, message, classifier):
    with pytest.raises(InputError, match=message):
        classifier.fit(x, y)


def test_validation_data_is_named_in_errors(classifier):
    with pytest.raises(InputError, match=r"validation_data\[1\]\[0\]=5"):
        classifier.fit(["a"], [0], validation_data=(["a"], [5]))


def test_what_does_not_fit(made, classifier, tmp_path):
    run = made("fill_mask").run
    build = albert_tf.TextClassifier.from_pretrained
    for source, settings, named in (
        (run, {}, "num_labels is missing"),
        (None, {}, "run=None"),
        (run, {"labels": ["a", "a"]}, r"labels=\['a', 'a'\]: .* two different names"),
        (run, {"labels": ["a"]}, r"labels=\['a'\]: labels must be a list of at least two different names"),
        (run, {"labels": "ab"}, "labels='ab': labels must be a list of at least two different names"),
        (run, {"labels": ["a", "b"], "num_labels": 3}, "2 names for num_labels=3"),
        (run, {"labels": [0, 1]}, r"labels\[0\]=0"),
        (run, {"labels": {"good": 1, "bad": 0}}, "must be a list"),
        (run, {"num_labels": 0}, "num_labels=0"),
        (run, {"num_labels": 2, "seq_length": 65}, "seq_length=65 must be at most 64"),
        (run, {"num_labels": 2, "pooling": "max"}, "pooling='max'"),
        (run, {"num_labels": 2, "threshold": 50}, "threshold=50 must be at least 0 and at most 1"),
        (run, {"num_labels": 2, "threshold": "auto"}, "threshold='auto' must be of type float"),
    ):
        with pytest.raises(InputError, match=named):
            build(source, **settings)
    for path in ("none.keras", "none"):
        with pytest.raises(MissingFileError, match=f"path='{path}' does not exist"):
            albert_tf.TextClassifier.load(path)
    (tmp_path / "bad.keras").write_bytes(b"PK\x03\x04" + bytes(40))
    with pytest.raises(InputError, match=r"bad\.keras' holds no TextClassifier"):
        albert_tf.TextClassifier.load(tmp_path / "bad.keras")
    with pytest.raises(InputError, match="filepath='' is not a path"):
        classifier.save("")
    with pytest.raises(InputError, match=r"is a run: use TextClassifier\.from_pretrained"):
        albert_tf.TextClassifier.load(run)
    classifier.classifier.save(tmp_path / "other.keras")
    with pytest.raises(InputError, match="holds another model than a TextClassifier"):
        albert_tf.TextClassifier.load(tmp_path / "other.keras")
    for inputs in (tf.constant([1, 2, 3]), tf.constant([["a", "b", "c"]]), ["a", 5]):
        with pytest.raises(InputError):
            classifier(inputs)
    for inputs in (["a", ("b", "c")], [("a", "b"), "c"]):
        with pytest.raises(InputError, match=r"^inputs\[1\] holds a .*, and the first is a"):
            classifier(inputs)


def test_what_is_cut_and_what_is_unknown_is_told(fresh, piece_tokenizer, caplog):
    model = fresh(seq_length=28)
    model.compile(**EAGER)
    lengths = [len(ids) for ids in piece_tokenizer(tf.constant(TEXTS)).to_list()]
    cut = [length - 26 for length in lengths if length > 26]
    assert 0 < len(cut) < len(TEXTS)
    caplog.clear()
    model.fit([*TEXTS, "щука"], [*LABELS, 0], verbose=0)
    (line,) = [line for line in caplog.messages if "seq_length=28" in line]
    assert f"{len(cut)} of {len(TEXTS) + 1}" in line
    assert "unknown" not in caplog.text
    model.fit(["щука", "ёж"], [0, 1], verbose=0)
    assert "unknown to the vocabulary" in caplog.text


def test_numbers_that_may_be_names_are_refused():
    assert LabelEncoder(["0", "1"], 2, None).targets([0, "1"], 2, "y").tolist() == [0, 1]
    with pytest.raises(InputError, match="holds 0"):
        LabelEncoder(["1", "0"], 2, None).targets([0, 1], 2, "y")
    with pytest.raises(InputError, match="holds 0"):
        LabelEncoder(["1", "0"], 2, None).targets(list(np.array([0, 1])), 2, "y")
    for names, label in (
        (["1", "2", "3"], 1.0),
        (["1", "2", "3"], np.float64(2)),
        (["true", "false"], True),
        (["True", "False"], np.bool_(False)),
    ):
        labels = LabelEncoder(names, len(names), None)
        with pytest.raises(
            InputError, match=f"y holds {label}, the number of one label and the name of another"
        ):
            labels.targets([label, label], 2, "y")
        with pytest.raises(InputError, match="class_weight holds"):
            labels.weights({label: 2.0})
        with pytest.raises(InputError, match="x holds"):
            labels.target_tensor(tf.constant([0, 1]), "x")
    assert LabelEncoder(["false", "true"], 2, None).targets([True, False], 2, "y").tolist() == [1, 0]
    assert LabelEncoder(["0", "1"], 2, None).targets([1.0, "0"], 2, "y").tolist() == [1, 0]
    assert LabelEncoder(["x", "y"], 2, None).targets([0, 1], 2, "y").tolist() == [0, 1]
    assert LabelEncoder(None, 1, None).targets(list(np.array([0, 1], np.float32)), 2, "y").tolist() == [0, 1]
    assert LabelEncoder(None, 2, CATEGORICAL).targets(list(np.eye(2)), 2, "y").tolist() == np.eye(2).tolist()


def test_several_labels_of_a_text_in_lists_and_datasets():
    labels = LabelEncoder(["a", "b", "c"], 3, None, multi_label=True)
    expected = [[0, 1, 0], [1, 0, 0]]
    for given in ([("b",), ("a",)], expected, ["b", "a"]):
        assert labels.targets(given, 2, "y").tolist() == expected
    for given in (tf.constant(["b", "a"]), tf.constant([["b"], ["a"]]), tf.constant([1, 0])):
        assert labels.target_tensor(given, "x").numpy().tolist() == expected
    with pytest.raises(InputError, match=r"y\[1\]=\[0, 1, 2\] is no row of 0 and 1"):
        labels.targets([[0, 1, 1], [0, 1, 2]], 2, "y")
    with pytest.raises(InputError, match=r"x has names of labels in the shape \(1, 2\)"):
        labels.target_tensor(tf.constant([["b", "a"]]), "x")


LONG_TEXTS = [TEXTS[0], " ".join(TEXTS), "", " ".join(TEXTS[3:6])]


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_windows_of_long_texts_are_pooled_within_the_call(fresh, piece_tokenizer, tmp_path, pooling):
    model = fresh(seq_length=16, long="windows", doc_stride=5, window_pooling=pooling)
    weights = model.classifier.classifier.output_weights
    weights.assign(tf.random.stateless_normal(weights.shape, [1, 2]))
    model.compile(keras.optimizers.Adam(0.01), **EAGER)
    expected = []
    for tokens in piece_tokenizer(tf.constant(LONG_TEXTS)).to_list():
        parts = [tokens[n : n + 14] for n in range(0, max(len(tokens) - 14 + 4, 0) // 5 * 5 + 1, 5)]
        rows = [model.classifier({"input_word_ids": tf.constant([[2, *x, 3]])})["logits"][0] for x in parts]
        expected.append(getattr(np, pooling)(rows, axis=0))
    np.testing.assert_allclose(model(LONG_TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(LONG_TEXTS, batch_size=3, verbose=0), expected, atol=1e-5)
    (answer,) = albert_tf.pipeline(model)([LONG_TEXTS[1]], top_k=2)
    shares = tf.nn.softmax(expected[1]).numpy()
    assert {x["label"]: x["score"] for x in answer} == pytest.approx(
        dict(zip(NAMES, shares, strict=True)), abs=1e-5
    )
    batches = tf.data.Dataset.from_tensor_slices((LONG_TEXTS, [0, 1, 0, 1])).batch(2)
    losses = [
        *model.fit(LONG_TEXTS, [0, 1, 0, 1], epochs=3, verbose=0).history["loss"],
        *model.fit(batches, epochs=3, verbose=0).history["loss"],
    ]
    assert losses[-1] < losses[0]
    model.save(tmp_path / "model.keras")
    again = albert_tf.TextClassifier.load(tmp_path / "model.keras")
    np.testing.assert_allclose(again(LONG_TEXTS), model(LONG_TEXTS), atol=1e-6)


def test_head_and_tail_of_long_texts(fresh, piece_tokenizer):
    model = fresh(seq_length=16, long="head_tail")
    rows = [
        x if len(x) <= 14 else x[:4] + x[-10:] for x in piece_tokenizer(tf.constant(LONG_TEXTS)).to_list()
    ]
    expected = [model.classifier({"input_word_ids": tf.constant([[2, *x, 3]])})["logits"][0] for x in rows]
    model.compile(**EAGER)
    np.testing.assert_allclose(model(LONG_TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(LONG_TEXTS, verbose=0), expected, atol=1e-5)


def test_what_windows_cannot_do_is_refused(fresh):
    for settings in ({"long": "all"}, {"long": "windows", "pad_to_length": True}, {"doc_stride": 0}):
        with pytest.raises(InputError, match=str(list(settings)[-1])):
            fresh(**settings)
    with pytest.raises(InputError, match="long='windows': pairs"):
        fresh(long="windows", takes_pairs=True)
    for long in ("windows", "head_tail"):
        model = fresh(long=long)
        model.compile()
        with pytest.raises(InputError, match=f"long='{long}': pairs of texts are truncated"):
            model.fit([("a", "b"), ("c", "d")], [0, 1])
    model = fresh(long="windows")
    with pytest.raises(InputError, match="single texts"):
        model([("a", "b")])
    with pytest.raises(InputError, match="jit_compile=True"):
        model.compile(jit_compile=True)


def test_windows_that_are_too_many_for_one_array_are_refused(fresh, monkeypatch):
    """Every text is as long as the longest; a dataset of batches has fewer at once."""
    monkeypatch.setattr(text_classifier, "_MAX_TOKENS", 100)
    model = fresh(seq_length=16, long="windows")
    model.compile(**EAGER)
    for function in (model.predict, lambda x: model.fit(x, [0, 1, 0, 1])):
        with pytest.raises(InputError, match=r"^x holds 4 texts"):
            function(LONG_TEXTS)
    assert len(model.predict(tf.data.Dataset.from_tensor_slices(LONG_TEXTS).batch(2), verbose=0)) == 4
    cut = fresh(seq_length=32)  # 4 texts of 32 tokens
    cut.compile(**EAGER)
    assert len(cut.predict(LONG_TEXTS, verbose=0)) == 4


def test_one_label_that_a_text_has_or_not(made):
    """It is no regression."""
    build, run = albert_tf.TextClassifier.from_pretrained, made("fill_mask").run
    model = build(run, labels=["sea"], multi_label=True)
    model.compile(**EAGER)
    targets = [["sea"] if label == 0 else [] for label in LABELS]
    history = model.fit(TEXTS, targets, epochs=1, verbose=0).history
    assert np.isfinite(history["loss"][0]) and model.task_entries()["labels"] == ["sea"]
    probabilities = model.predict_proba(TEXTS, verbose=0)
    assert probabilities.shape == (len(TEXTS), 1)
    expected = [("sea",) if probability >= 0.5 else () for probability in probabilities[:, 0]]
    assert model.predict_labels(TEXTS, verbose=0) == expected
    assert model.score(TEXTS, [list(labels) for labels in expected], verbose=0) == 1
    assert model.score(TEXTS, [[len(labels)] for labels in expected], verbose=0) == 1  # rows of 0 and 1


def test_a_regression_whose_number_has_a_name(tmp_path, tiny_vocabulary):
    """Hugging Face's configs name it."""
    task = {"task": "regression", "seq_length": 16, "labels": ["score"]}
    albert_tf.save(
        albert_tf.AlbertClassifier(TINY, num_labels=1), tmp_path / "run", tiny_vocabulary, task=task
    )
    model = albert_tf.TextClassifier.from_pretrained(tmp_path / "run")
    (expected,) = albert_tf.pipeline(tmp_path / "run")(TEXTS[:1])
    np.testing.assert_allclose(model.predict_labels(TEXTS[:1], verbose=0), [expected["score"]], rtol=1e-5)


def test_token_ids_of_ones_own(classifier):
    """The mask may be missing, and it may have gaps."""
    ids = tf.constant([[2, 5, 6, 7, 3]])
    for inputs in (
        {"input_word_ids": ids},
        {"input_word_ids": ids, "input_mask": tf.constant([[1, 0, 1, 1, 1]]), "input_type_ids": 0 * ids},
    ):
        expected = classifier.classifier(inputs)["logits"]
        np.testing.assert_allclose(classifier(inputs), expected, atol=1e-5)
        np.testing.assert_allclose(classifier.predict(inputs, verbose=0), expected, atol=1e-5)
    with pytest.raises(InputError, match="input_word_ids is missing"):
        classifier({"input_ids": ids})
    with pytest.raises(InputError, match="inputs holds no texts"):
        classifier([])


def test_settings_of_windows_and_exits(fresh):
    with pytest.raises(InputError, match="doc_stride: of no use without long='windows'"):
        fresh(doc_stride=7)
    network = albert_tf.AlbertClassifier(TINY, 2, early_exit=True)
    model = albert_tf.TextClassifier(network, fresh().tokenizer, seq_length=16, long="windows", doc_stride=4)
    with pytest.raises(InputError, match="patience=1: of no use to long='windows'"):
        model.predict(TEXTS[:1], patience=1)
    with pytest.raises(InputError, match="patience=1"):
        albert_tf.pipeline(model, patience=1)


def test_token_ids_longer_than_texts(fresh):
    """Compiled by XLA as without it."""
    ids = {"input_word_ids": np.full([2, 40], 7)}  # int64, as NumPy has it
    plain, compiled = (fresh(seq_length=16, xla=xla) for xla in (False, True))
    compiled.set_weights(plain.get_weights())
    expected = plain.predict(ids, verbose=0)
    np.testing.assert_allclose(compiled.predict(ids, verbose=0), expected, atol=1e-5)
    rows = tf.data.Dataset.from_tensor_slices({**ids, "guid": [0, 1]}).batch(2)
    np.testing.assert_allclose(plain.predict(rows, verbose=0), expected, atol=1e-5)


def test_windows_of_token_ids_are_of_the_tokens_alone(fresh):
    """Whatever the mask leaves out, also between tokens."""
    model = fresh(seq_length=8, long="windows", doc_stride=3)
    ids, gaps = (
        np.array([[2, *range(5, 25), 3]]),
        np.insert(np.array([[2, *range(5, 25), 3]]), [4, 9], 7, axis=1),
    )
    mask = np.insert(np.ones_like(ids), [4, 9], 0, axis=1)
    expected = model.predict({"input_word_ids": ids}, verbose=0)
    found = model.predict({"input_word_ids": gaps, "input_mask": mask}, verbose=0)
    np.testing.assert_allclose(found, expected, atol=1e-5)
