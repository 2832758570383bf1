"""From a table with several labels a row to predictions, metrics and a serving model."""

import csv
import json

import numpy as np
import pytest

import albert_tf
from albert_tf.finetuning.predict import predict
from albert_tf.finetuning.run import finetune
from albert_tf.finetuning.trained import evaluate_trained
from hub_export.export import export
from tests.albert_tf.finetuning.runs import SENTENCES

LABELS = ("and", "long", "the")


def labels_of(sentence):
    has = {"and": "and" in sentence, "long": len(sentence) > 60, "the": "the" in sentence}
    return [label for label in LABELS if has[label]]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    file = tmp_path_factory.mktemp("multi") / "own.csv"
    with file.open("w", newline="") as stream:
        rows = [(sentence, "|".join(labels_of(sentence))) for sentence in SENTENCES]
        csv.writer(stream).writerows([("text", "kind"), *rows])
    return file


def test_from_a_table_to_a_served_model(asked, table, tmp_path):
    settings = asked(task="multi_label", train=table, eval=table, threshold=0.3)
    finetune(settings)
    task = json.loads((settings.output / "task.json").read_text())
    assert (task["labels"], task["multi_label"], task["threshold"]) == (sorted(LABELS), True, 0.3)
    predict(settings.output, table, tmp_path / "predicted.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "predicted.jsonl").read_text().splitlines()]
    assert [row["text"] for row in rows] == list(SENTENCES)
    wanted = np.array([[label in row["kind"].split("|") for label in sorted(LABELS)] for row in rows])
    found = np.array([[label in row["prediction"] for label in sorted(LABELS)] for row in rows])
    hits = (wanted & found).sum()
    metrics = evaluate_trained(settings.output, file=table)
    assert metrics["micro_f1"] == pytest.approx(2 * hits / (wanted.sum() + found.sum()))
    assert metrics["accuracy"] == pytest.approx((wanted == found).all(axis=1).mean())
    export(settings.output, tmp_path / "hub", check=False)
    of_run = albert_tf.pipeline(settings.output)(SENTENCES[:5])
    served = albert_tf.pipeline(tmp_path / "hub")
    assert served.task == "multi_label"
    for answers, row in zip(served(SENTENCES[:5]), rows, strict=False):
        assert {answer["label"] for answer in answers} == set(row["prediction"])
    assert [[a["label"] for a in answers] for answers in of_run] == [
        [a["label"] for a in answers] for answers in served(SENTENCES[:5])
    ]
