"""The lines that a fine-tuned run begins and ends with."""

import json

import pytest

from albert_tf.checkpoints.directory import RunDirectory
from albert_tf.finetuning.data import Sets
from albert_tf.finetuning.reports import described, ending
from albert_tf.finetuning.task_table import TASKS
from albert_tf.tasks.examples.records import ChoiceRecord, TextRecord


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.7, 0.8, 0.8], ["step 6", "accuracy 0.800", "loss 0.5000"]),
        ([0.5, 0.6, 0.1], ["'tale'", "0.600"]),  # three of five: nothing was learned
        ([None, None, None], ["no evaluation", "accuracy", " 9,"]),
    ],
)
def test_the_best_step_and_the_folder(values, words, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "task.json").write_text(
        '{"model": "classifier", "num_labels": 2, "best_by": "eval_accuracy"}'
    )
    lines = []
    for step, value in zip((3, 6, 9), values, strict=True):
        for suffix in (".index", ".data-00000-of-00001"):
            (tmp_path / f"checkpoints/ckpt-{step}{suffix}").write_bytes(b"")
        lines.append(json.dumps({"step": step, "eval_accuracy": value, "eval_loss": 0.5}) + "\n")
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    dev = {"dev": records(["tale", "speech", "tale", "verse", "tale"])}
    told = ending(RunDirectory(tmp_path), TASKS["classification"], dev)
    assert len(told) == 1 + (values[1] == 0.6)
    assert all(word in " ".join(told) for word in [*words, str(tmp_path)]), told


def records(labels):
    return [TextRecord("own.csv", n + 2, str(n), "text", None, label) for n, label in enumerate(labels)]


def test_labels_and_scores_show_a_wrong_column():
    def lines(task, train, dev=()):
        return described(TASKS[task], Sets(train, {"dev": [*train, *dev] if dev == () else dev}))

    adverts = records(["advert"] * 12 + ["article"] * 3)
    assert lines("classification", adverts) == ["labels: 'advert' (12), 'article' (3)"]
    assert lines("classification", adverts, adverts[:3])[1:] == ["evaluated on no example of 'article'"]
    (line,) = lines("classification", records(f"{n % 40:02} {'x' * 80}" for n in range(80)))
    assert line.endswith(" and 30 more") and len(line) < 800
    each = records(f"{'x' * 80}{n % 60}" for n in range(100))
    line, warning, *_ = lines("classification", each)
    assert line.startswith(f"labels: '{'x' * 56}…' (2)")
    assert warning == "warning: 60 different labels in 100 examples: is that the column of the labels?"
    assert lines("regression", records(["1", "4.5"])) == ["scores: 1 to 4.5, 2.75 on average"]
    assert lines("race", [ChoiceRecord("a:1", "1", "", "c", "q", ("a", "b"), 0)]) == []
