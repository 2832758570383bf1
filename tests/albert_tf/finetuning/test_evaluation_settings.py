"""What is held out, and the metric that tells the best step, from the command line to the run."""

import json

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from albert_tf.cli import command_line_parser
from albert_tf.cli.finetune import provided_settings
from albert_tf.errors import InputError
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.predict import predict
from albert_tf.finetuning.reports import final_lines
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import Columns
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
    (line,) = final_lines(run, TASK_SPECS["tagging"], {})  # of which no baseline is told
    assert line.startswith(f"best: step {run.default_step()} (loss ")
    count = len(own_table.read_text().splitlines())
    assert run.recipe["eval_share"] == 0.3
    assert run.recipe["eval_examples"] == {"dev": round(0.3 * count)}


@pytest.mark.parametrize(
    ("changes", "best_by", "choose"),
    [
        ({}, "auc", max),
        ({"task": "regression", "columns": Columns("text", None, "length")}, "rmse", min),
    ],
)
def test_a_figure_of_the_report_tells_the_best_step(asked, own_table, tmp_path, changes, best_by, choose):
    loop = {"log_every": 0, "eval_every": 3, "checkpoint_every": 3}
    made = asked(tmp_path / "run", evaluation={"best_by": best_by}, loop=loop, **changes)
    finetune(made)
    values = {}
    for step in RunDirectory(made.output).steps():
        predict(made.output, own_table, tmp_path / "found.jsonl", step=step)
        rows = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
        if best_by == "auc":
            second = [row["score"] if row["prediction"] == "tale" else 1 - row["score"] for row in rows]
            values[step] = roc_auc_score([row["kind"] == "tale" for row in rows], second)
        else:
            errors = np.array([row["prediction"] - row["length"] for row in rows])
            values[step] = np.sqrt((errors**2).mean())
    found = {line["step"]: line[f"eval_{best_by}"] for line in metrics(made.output) if "eval_loss" in line}
    assert {step: found[step] for step in values} == pytest.approx(values, rel=1e-4)
    assert found[RunDirectory(made.output).default_step()] == choose(found.values())


def test_there_is_no_auc_of_three_labels(asked, tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("text,kind\na boat,a\na bee,b\nbees,c\n")
    with pytest.raises(InputError, match="best_by='auc' is of two labels, and there are 3"):
        finetune(asked(tmp_path / "run", train=file, eval=file, evaluation={"best_by": "auc"}))


def test_the_flags():
    words = "finetune --task classification --train own.csv --text a --label b --config bert_base"
    words += " --vocabulary spiece.model --output run --best_by f1 --eval_share 0.2"
    flags = command_line_parser().parse_args(words.split())
    flags.command_line = words
    evaluation = {"best_by": "f1", "eval_share": 0.2}
    assert provided_settings(flags)["evaluation"] == evaluation
