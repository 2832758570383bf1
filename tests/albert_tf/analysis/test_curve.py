"""The learning curve: what is read, and what the picture shows."""

import json
import re

import pytest

from albert_tf.analysis.curve import draw_curve, read_metrics

LINES = [
    {"step": 1, "loss": 7.0, "mlm_loss": 6.3, "sop_loss": 0.7, "sop_accuracy": 0.5},
    {"step": 2, "loss": 6.0, "mlm_loss": 5.4, "sop_loss": 0.6, "sop_accuracy": 0.6},
    {"step": 2, "eval_loss": 6.5, "eval_mlm_loss": 5.8},
]


@pytest.fixture
def run(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return tmp_path


def test_series_by_name(run):
    series = read_metrics(run)
    assert series["mlm_loss"] == [(1, 6.3), (2, 5.4)]
    assert series["eval_mlm_loss"] == [(2, 5.8)]


def test_picture_names_what_it_shows(run):
    draw_curve(run, run / "curve.svg")
    text = (run / "curve.svg").read_text()
    labels = set(re.findall(r"<!-- (.*?) -->", text))
    assert {"mlm_loss", "mlm_loss (held out)", "sop_loss", "sop_accuracy", "updates"} <= labels
    assert "nsp_loss" not in labels


def test_a_run_without_figures(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"metrics\.jsonl"):
        draw_curve(tmp_path, tmp_path / "curve.png")
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match="no losses yet"):
        draw_curve(tmp_path, tmp_path / "curve.png")


def test_an_unknown_picture_format(run):
    with pytest.raises(ValueError, match="xyz"):
        draw_curve(run, run / "curve.xyz")
