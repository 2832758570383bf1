"""A run, a prepared folder and a vocabulary that an earlier version made: tests/earlier."""

import json
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf import cli
from albert_tf.data.prepare import prepare
from albert_tf.pretraining.evaluation import evaluate_run
from hub_export.export import export
from tests.albert_tf.pretraining.runs import metrics

EARLIER = Path(__file__).parents[2] / "earlier"


@pytest.fixture
def earlier(tmp_path, monkeypatch):
    """A copy, which is the current folder."""
    shutil.copytree(EARLIER, tmp_path / "earlier")
    monkeypatch.chdir(tmp_path / "earlier")


def test_a_run_loads_and_evaluates(earlier):
    stored = tf.train.load_checkpoint("run/checkpoints/ckpt-4")
    key = "model/encoder/pooler/pooler.Sdense.Skernel/.ATTRIBUTES/VARIABLE_VALUE"
    model = albert_tf.load("run")
    (kernel,) = (x for x in model.variables if x.name.startswith("pooler/dense/kernel"))
    np.testing.assert_array_equal(kernel, stored.get_tensor(key))
    recorded = metrics(Path("run"))[-1]["eval_mlm_loss"]
    # On the same held-out document; pairs and masks are drawn otherwise now.
    assert evaluate_run("run", ["prepared"], batch_size=4)["eval_mlm_loss"] == pytest.approx(
        recorded, rel=0.05
    )


@pytest.mark.slow
def test_a_run_exports(earlier):
    assert export("run", "hub", seq_length=16, check=False)


@pytest.mark.slow
def test_a_run_goes_on_where_it_stopped(earlier, caplog):
    """By its command as it was typed, with more steps."""
    caplog.set_level("INFO", "absl")
    words = json.loads(Path("run/recipe.json").read_text())["command"].split()[1:]
    shutil.copy("run/spiece.model", "spiece.model")
    assert cli.run([*words, "--steps", "6"]) == 0
    warning = "ckpt-4 is of a version that made other batches: they are drawn anew from there"
    assert ("absl", logging.WARNING, warning) in caplog.record_tuples
    assert any("going on from step 4, to 6" in line for line in caplog.messages)
    assert [line["step"] for line in metrics(Path("run"))] == [2, 4, 4, 6, 6]


def test_a_prepared_folder_is_done_and_read(earlier):
    told = []
    prepare("corpus.txt", "prepared", "run/spiece.model", shards=2, eval_share=0.4, report=told.append)
    assert told == ["prepared is finished already, with these settings: nothing to do"]
    batches = albert_tf.pretraining_dataset(
        "prepared", "run/spiece.model", batch_size=4, seq_length=16, repeat=False
    )
    assert sum(int(batch["input_mask"][:, 0].numpy().sum()) for batch in batches) > 20
