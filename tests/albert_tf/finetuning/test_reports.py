"""What is told at the end of a fine-tuned run."""

import json

import pytest

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.finetuning.reports import ending
from albert_tf.finetuning.task_table import TASKS
from albert_tf.tasks.examples.records import ChoiceRecord, TextRecord


@pytest.fixture
def evaluated(tmp_path):
    """A run with checkpoints of the steps that it was evaluated at, and the figures there."""

    def make(best_by="eval_accuracy", **figures):
        (tmp_path / "checkpoints").mkdir()
        (tmp_path / "task.json").write_text(json.dumps({"model": "classifier", "best_by": best_by}))
        lines = []
        for number, step in enumerate((3, 6, 9)):
            for suffix in (".index", ".data-00000-of-00001"):
                (tmp_path / f"checkpoints/ckpt-{step}{suffix}").write_bytes(b"")
            values = {f"eval_{name}": values[number] for name, values in figures.items()}
            lines.append(json.dumps({"step": step, **values}) + "\n")
        (tmp_path / "metrics.jsonl").write_text("".join(lines))
        return RunDirectory(tmp_path)

    return make


def records(labels):
    return [TextRecord("own.csv", n + 2, str(n), "text", None, label) for n, label in enumerate(labels)]


DEV = {"dev": records(["tale", "speech", "tale", "1.0", "tale"])}


def test_the_best_step_its_figures_and_the_folder(evaluated):
    run = evaluated(loss=[0.9, 0.52, 0.4], accuracy=[0.6, 0.8, 0.8], f1=[0.25, 0.75, 0.625])
    (line,) = ending(run, TASKS["classification"], DEV)
    assert line == f"best: step 9 (accuracy 0.800, loss 0.4000, f1 0.625) in {run}"


def test_a_figure_that_is_known_of_no_step(evaluated):
    run = evaluated("eval_pearson", loss=[0.9, 0.5, 0.6], pearson=[None, None, None])
    (line,) = ending(run, TASKS["regression"], {"dev": records(["1", "2"])})
    assert line.startswith("no evaluation has a pearson") and " 9," in line and str(run) in line


@pytest.mark.parametrize(
    ("accuracy", "is_told"), [([0.2, 0.6, 0.6], True), ([0.2, 0.4, 0.1], True), ([0.2, 0.6, 0.8], False)]
)
def test_the_most_frequent_label_alone(evaluated, accuracy, is_told):
    """Three of five: what does no better than it has learned nothing that can be seen."""
    lines = ending(evaluated(accuracy=accuracy), TASKS["classification"], DEV)
    assert len(lines) == 1 + is_told
    assert ("tale" in lines[-1] and "0.600" in lines[-1]) is is_told


def test_the_most_frequent_label_of_several_sets_by_another_figure(evaluated):
    dev = {"dev_matched": records(["neutral"] * 3 + ["entailment"]), "dev_mismatched": records(["neutral"])}
    run = evaluated("eval_accuracy_matched", accuracy_matched=[0.75, 0.7, 0.6])
    assert "neutral" in ending(run, TASKS["mnli"], dev)[1]


def test_a_correlation_of_nothing(evaluated):
    run = evaluated("eval_matthews_correlation", matthews_correlation=[0.0, -0.1, 0.0])
    assert "'1'" in ending(run, TASKS["cola"], {"dev": records("1101")})[1]


def test_tasks_without_labels_have_no_most_frequent_one(evaluated):
    choices = [ChoiceRecord("f:1", "1", "", "c", "q", ("a", "b"), 0)]
    assert len(ending(evaluated(accuracy=[0.0, 0.0, 0.0]), TASKS["multiple_choice"], {"dev": choices})) == 1
