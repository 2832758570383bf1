"""What is held out, and the metric that tells the best step, from the command line to the run."""

import json
import shutil

import pytest

from albert_tf.checkpoints import RunDirectory
from albert_tf.cli import command_line_parser
from albert_tf.cli.finetune import settings_given
from albert_tf.finetuning.run import finetune
from albert_tf.utils.errors import InputError
from tests.albert_tf.pretraining.runs import metrics

LOSS = {"eval_share": 0.3, "best_by": "loss"}


@pytest.fixture(scope="module")
def by_loss(asked, made_once):
    """A run of six updates whose best step has the lowest loss."""
    return made_once("by_loss", lambda folder: finetune(asked(folder, eval=None, evaluation=LOSS)))


def test_the_lowest_loss_tells_the_best_step(by_loss, own_table):
    run, losses = RunDirectory(by_loss), {}
    for line in metrics(by_loss):
        if "eval_loss" in line:
            losses[line["step"]] = line["eval_loss"]
    assert run.default_step() == min(losses, key=losses.__getitem__)
    assert run.task["best_by"] == "eval_loss"
    count = len(own_table.read_text().splitlines())
    assert run.recipe["eval_share"] == 0.3
    assert run.recipe["eval_examples"] == {"dev": round(0.3 * count)}


def test_a_run_keeps_them(asked, by_loss, finetuned, tmp_path):
    for there, evaluation, message in (
        (by_loss, {"best_by": "loss"}, "eval_share is 0.3 there and 0.1 here"),
        (by_loss, {"eval_share": 0.3}, "best_by is 'eval_loss' there and 'eval_accuracy' here"),
    ):
        with pytest.raises(InputError, match=message):
            finetune(asked(there, eval=None, evaluation=evaluation))
    # A run of an older version, which does not say its share, goes on.
    run = shutil.copytree(finetuned, tmp_path / "run")
    recipe = json.loads((run / "recipe.json").read_text())
    assert recipe.pop("eval_share") == 0.1
    (run / "recipe.json").write_text(json.dumps(recipe))
    finetune(asked(run))


def test_the_flags():
    words = "finetune --task classification --train own.csv --text a --label b --config bert_base"
    words += " --vocabulary spiece.model --output run --best_by f1 --eval_share 0.2"
    flags = command_line_parser().parse_args(words.split())
    flags.command_line = words
    evaluation = {"best_by": "f1", "eval_share": 0.2}
    assert settings_given(flags)["evaluation"] == evaluation
