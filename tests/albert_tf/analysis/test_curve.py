"""The learning curve: what is read, and what the picture shows."""

import json
import re

import pytest

from albert_tf.analysis.curve import curve_tables, draw_curve, metric_series
from albert_tf.errors import InputError
from tests.albert_tf.pretraining.runs import empty_checkpoints
from tests.tiny import write_jsonl

LINES = [
    {"step": 1, "loss": 7.0, "mlm_loss": 6.3, "sop_loss": 0.7, "sop_accuracy": 0.5},
    {"step": 2, "loss": 6.0, "mlm_loss": 5.4, "sop_loss": 0.6, "sop_accuracy": 0.6},
    {"step": 2, "eval_loss": 6.5, "eval_mlm_loss": 5.8},
]


@pytest.fixture
def run(tmp_path):
    write_jsonl(tmp_path / "metrics.jsonl", LINES)
    return tmp_path


def test_picture_names_what_it_shows(run):
    draw_curve(run, run / "curve.svg")
    text = (run / "curve.svg").read_text()
    labels = set(re.findall(r"<!-- (.*?) -->", text))
    assert {"mlm_loss", "mlm_loss (held out)", "sop_loss", "sop_accuracy", "steps"} <= labels
    assert "nsp_loss" not in labels


def test_a_fine_tuned_run_shows_its_loss_and_metrics(tmp_path):
    lines = [
        {"step": 2, "loss": 0.7, "label_loss": 0.7, "label_accuracy": 0.5, "learning_rate": 1e-5},
        {"step": 2, "eval_loss": 0.6, "eval_accuracy": 0.75, "eval_f1": 0.7, "eval_total": 20},
    ]
    write_jsonl(tmp_path / "metrics.jsonl", lines)
    draw_curve(tmp_path, tmp_path / "curve.svg")
    labels = set(re.findall(r"<!-- (.*?) -->", (tmp_path / "curve.svg").read_text()))
    shown = {"loss", "loss (held out)", "accuracy", "accuracy (held out)", "f1 (held out)"}
    assert {name for name in labels if "loss" in name or "acc" in name or "held" in name} == shown
    assert "metrics" in labels and "learning_rate" not in labels


def test_what_is_refused(run, tmp_path_factory):
    (run / "pictures").mkdir()
    for name, error in (("curve.xyz", ValueError), ("curve", ValueError), ("pictures", IsADirectoryError)):
        with pytest.raises(error, match=name):
            draw_curve(run, run / name)
    with pytest.raises(InputError, match=r"gs://bucket/curve\.png is not on this machine"):
        draw_curve(run, "gs://bucket/curve.png")
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FileNotFoundError, match=r"metrics\.jsonl"):
        draw_curve(empty, run / "curve.png")
    (empty / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"metrics\.jsonl"):
        draw_curve(empty, run / "curve.png")
    assert {path.name for path in run.iterdir()} == {"metrics.jsonl", "pictures"}


def test_series_by_name_without_what_is_infinite_or_cut_off(run):
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'{"step": 3, "mlm_loss": 5.0, "gradient_norm": null}\n{"step": 4, "mlm_lo')
    series = metric_series(run)
    assert series["mlm_loss"] == [(1, 6.3), (2, 5.4), (3, 5.0)]
    assert series["eval_mlm_loss"] == [(2, 5.8)]
    assert "gradient_norm" not in series


def test_the_best_step_of_a_fine_tuned_run_is_marked(run):
    (run / "task.json").write_text(
        json.dumps({"model": "classifier", "num_labels": 2, "best_by": "eval_accuracy"})
    )
    empty_checkpoints(run, (1, 2))
    (run / "metrics.jsonl").write_text(
        '{"step": 1, "eval_accuracy": 0.75}\n{"step": 2, "eval_accuracy": 0.5}\n'
    )
    assert [table.mark for table in curve_tables(run)] == [("chosen: step 1", 1)]
    draw_curve(run, run / "curve.svg")
    assert "<!-- chosen: step 1 -->" in (run / "curve.svg").read_text()
