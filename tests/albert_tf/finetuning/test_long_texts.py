"""Classifiers that read the mean of tokens' states, of long texts the beginning, windows, or both ends."""

import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.conversion.convert import convert
from albert_tf.errors import InputError
from albert_tf.finetuning.evaluation import evaluate_finetuned
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.predict import predict
from albert_tf.tasks.columns import Columns
from hub_export.export import export
from hub_export.module_comparison import find_faults
from tests.albert_tf.finetuning.runs import LOOP, RECIPE, SENTENCES
from tests.albert_tf.pretraining.runs import weights
from tests.tiny import write_jsonl

S, STRIDE = 16, 9
TEXTS = [*SENTENCES[:3], " ".join(SENTENCES[:5]), "", " ".join(SENTENCES)]
READ = {**RECIPE, "dropout": 0.0, "classifier_dropout": 0.0, "seq_length": S, "pooling": "mean"}
LONG = {
    "truncate": {},
    "windows": {"long": "windows", "window_pooling": "max"},
    "head_tail": {"long": "head_tail"},
}


def settings_of(asked, long, output=None):
    questions = {"doc_stride": STRIDE} if long == "windows" else {}
    loop = {**LOOP, "eval_every": 6, "checkpoint_every": 6}
    return asked(output, recipe={**READ, **LONG[long]}, questions=questions, loop=loop)


@pytest.fixture(scope="module", params=LONG)
def long_run(request, asked):
    """The way of reading, and a run of six updates."""
    made, lines = settings_of(asked, request.param), []
    finetune(made, lines.append)
    assert any(" examples in " in line for line in lines) == (request.param == "windows")
    return request.param, made.output


def scores_by_hand(long, run, tokenizer, texts):
    """The probabilities of the labels, each window by itself and unpadded."""
    model, budget, logits = albert_tf.load(run), S - 2, []
    for tokens in tokenizer(tf.constant(texts)).to_list():
        if long == "windows":
            last = max(len(tokens) - budget + STRIDE - 1, 0) // STRIDE
            parts = [tokens[n * STRIDE : n * STRIDE + budget] for n in range(last + 1)]
        elif long == "truncate" or len(tokens) <= budget:
            parts = [tokens[:budget]]
        else:
            parts = [tokens[:4] + tokens[-10:]]
        rows = [model({"input_word_ids": tf.constant([[2, *part, 3]])})["logits"][0] for part in parts]
        logits.append(np.max(rows, axis=0))
    shares = np.exp(logits)
    return shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.slow
def test_all_ways_to_ask_read_texts_as_training_did(long_run, piece_tokenizer, own_table, tmp_path):
    long, run = long_run
    labels, expected = ["speech", "tale"], scores_by_hand(long, run, piece_tokenizer, TEXTS)
    assert np.ptp(expected[:, 0]) > 1e-3
    for file in ("task.json", "recipe.json"):
        entries = json.loads((run / file).read_text())
        assert entries.items() >= {"pooling": "mean", **LONG[long]}.items()
    # predict
    write_jsonl(tmp_path / "in.jsonl", [{"text": text} for text in TEXTS])
    columns = Columns("text", None, None)
    predict(run, tmp_path / "in.jsonl", tmp_path / "out.jsonl", columns=columns, probabilities=True)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    found = [[row[f"probability_{label}"] for label in labels] for row in rows]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # evaluate: the figures of the run's last evaluation
    figures = evaluate_finetuned(run, file=own_table).metrics
    assert figures["examples"] == 38
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert figures["accuracy"] == last["eval_accuracy"]
    # pipeline, TextClassifier, and what is served
    answers = albert_tf.pipeline(run)(TEXTS, top_k=2)
    found = [[{x["label"]: x["score"] for x in row}[label] for label in labels] for row in answers]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    model = albert_tf.TextClassifier.from_pretrained(run)
    np.testing.assert_allclose(tf.nn.softmax(model(TEXTS)), expected, atol=1e-5)
    np.testing.assert_allclose(tf.nn.softmax(model.predict(TEXTS, verbose=0)), expected, atol=1e-5)
    assert model.task_entries().items() >= LONG[long].items()
    export(run, tmp_path / "hub", check=False)
    served = tf.saved_model.load(str(tmp_path / "hub/serving/1"))
    assert "pair" not in served.signatures
    assert list(find_faults(tmp_path / "hub/serving/1", served)) == []
    served = served.signatures["serving_default"](text=tf.constant(TEXTS))
    np.testing.assert_allclose(served["scores"], tf.nn.softmax(model(TEXTS)), atol=1e-6)
    assert '"pooling": "mean"' in (tmp_path / "hub/README.md").read_text()
    if long == "truncate":  # a head on the exported encoder's states, as the run's
        tokens = tf.saved_model.load(str(tmp_path / "hub/preprocessor"))(tf.constant(TEXTS))
        states = tf.saved_model.load(str(tmp_path / "hub/encoder"))(tokens)["sequence_output"].numpy()
        counts = tokens["input_mask"].numpy().sum(axis=1)
        means = np.stack([rows[:count].mean(axis=0) for rows, count in zip(states, counts, strict=True)])
        weight, bias = (variable.numpy() for variable in albert_tf.load(run).variables[-2:])
        np.testing.assert_allclose(tf.nn.softmax(means @ weight.T + bias), expected, atol=1e-5)


# A run whose classifier reads the mean of the tokens' states: trained, asked, exported, converted.

MEAN = {**RECIPE, "dropout": 0.0, "classifier_dropout": 0.0, "pooling": "mean"}
POOLER = {"pooler/dense/kernel:0", "pooler/dense/bias:0"}


@pytest.fixture(scope="module")
def mean(asked):
    """A run of six updates without dropout."""
    made = asked(recipe=MEAN, loop={"checkpoint_every": 1, "keep": 6})
    finetune(made)
    return made.output


@pytest.mark.slow
def test_all_but_the_pooler_learns(mean, asked):
    """The pooler, which has no gradient, does not decay either. The rate of the first update is 0."""
    assert albert_tf.load(mean).pooling == "mean"
    before, after = weights(mean, 1), weights(mean, 6)
    assert {name for name in before if np.array_equal(before[name], after[name])} == POOLER
    # The optimizer still has the pooler's moments: checkpoints of earlier versions number them.
    found = tf.train.load_checkpoint(str(mean / "checkpoints/ckpt-6")).get_variable_to_shape_map()
    shapes = [shape for name, shape in found.items() if name.startswith("optimizer/variables/") and shape]
    expected = [variable.shape.as_list() for variable in albert_tf.load(mean).variables]
    assert sorted(shapes) == sorted(expected * 2)
    with pytest.raises(InputError, match="pooling is 'mean' there and 'first' here"):
        finetune(asked(mean, recipe={**MEAN, "pooling": "first"}))


def test_its_encoder_alone_is_converted(mean, tmp_path):
    for target in ("google", "huggingface"):
        with pytest.raises(InputError, match="run has pooling='mean', and classifiers elsewhere") as caught:
            convert("run", target, mean, tmp_path / target)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / target).exists()
    albert_tf.save(albert_tf.load(mean).encoder, tmp_path / "encoder")
    convert("run", "huggingface", tmp_path / "encoder", tmp_path / "huggingface")
    convert("huggingface", "run", tmp_path / "huggingface", tmp_path / "again")
    found, expected = weights(tmp_path / "again"), weights(mean)
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
