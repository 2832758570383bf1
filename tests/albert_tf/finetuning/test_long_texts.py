"""A run that reads texts in windows, and one that reads head and tail: trained, asked, exported, by hand."""

import json

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.finetuning.evaluation import evaluate_trained
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.predict import predict
from albert_tf.tasks.columns import Columns
from hub_export.export import export
from hub_export.module_check import find_faults
from tests.albert_tf.finetuning.runs import LOOP, RECIPE, SENTENCES

S, STRIDE = 16, 9
TEXTS = [*SENTENCES[:3], " ".join(SENTENCES[:5]), "", " ".join(SENTENCES)]
READ = {**RECIPE, "dropout": 0.0, "classifier_dropout": 0.0, "seq_length": S, "pooling": "mean"}
LONG = {"windows": {"long": "windows", "window_pooling": "max"}, "head_tail": {"long": "head_tail"}}


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
        else:
            parts = [tokens if len(tokens) <= budget else tokens[:4] + tokens[-10:]]
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
        assert entries.items() >= LONG[long].items()
    # predict
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    columns = Columns("text", None, None)
    predict(run, tmp_path / "in.jsonl", tmp_path / "out.jsonl", columns=columns, probabilities=True)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    found = [[row[f"probability_{label}"] for label in labels] for row in rows]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # evaluate: the figures of the run's last evaluation
    figures = evaluate_trained(run, file=own_table).figures
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
