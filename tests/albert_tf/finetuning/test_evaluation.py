"""Evaluations of runs: a report of each kind, and thresholds that everything that answers uses."""

import csv
import dataclasses
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import accuracy_score, f1_score, log_loss

import albert_tf
from albert_tf import cli
from albert_tf.errors import InputError
from albert_tf.filesystem import write_json
from albert_tf.finetuning import evaluation as evaluation_module
from albert_tf.finetuning.evaluation import choose_threshold, evaluate_finetuned
from albert_tf.finetuning.finetune import finetune
from albert_tf.finetuning.predict import predict
from albert_tf.finetuning.reports import best_metrics
from albert_tf.finetuning.task_table import TASK_SPECS, task_entries
from albert_tf.runs.run_directory import RunDirectory
from albert_tf.tasks.columns import Columns
from albert_tf.tasks.examples import TaggedRecord
from hub_export.export import export
from tests.albert_tf.commands import mistake
from tests.albert_tf.finetuning.runs import SENTENCES
from tests.albert_tf.finetuning.test_predict import write_glue
from tests.tiny import change_json, write_jsonl

COLUMNS = Columns("text", None, "kind")
LABELS = {"classification": ["tale", "verse"], "multi_label": ["", "a", "b", "a;b"]}


@pytest.fixture
def table(tmp_path):
    """A function that writes a table with labels of a task."""

    def write(task):
        names = LABELS.get(task, ["1", "2.5", "4"])
        kinds = [names[(5 * n + n // 3) % len(names)] for n in range(len(SENTENCES))]
        rows = [{"text": text, "kind": kind} for text, kind in zip(SENTENCES, kinds, strict=True)]
        return write_jsonl(tmp_path / f"{task}.jsonl", rows), kinds

    return write


@pytest.fixture
def run_of(saved, table):
    """A function that makes a table and a run of a task with its labels."""

    def make(task):
        file, right = table(task)
        return file, right, saved(task, TASK_SPECS[task].format.read(file, True, COLUMNS), columns=COLUMNS)

    return make


def read_probabilities(run, file, output):
    predict(run, file, output, probabilities=True)
    with output.open(newline="") as opened:
        rows = list(csv.DictReader(opened))
    names = [name for name in rows[0] if name.startswith("probability_")]
    return rows, np.array([[float(row[name]) for name in names] for row in rows], np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["classification", "multi_label"])
def test_the_best_threshold_is_what_everything_uses(run_of, task, tmp_path):
    file, right, run = run_of(task)
    _, scores = read_probabilities(run, file, tmp_path / "before.csv")
    line = choose_threshold(run, evaluate_finetuned(run, file=file).sets)
    threshold = json.loads((run / "task.json").read_text())["threshold"]
    assert f"threshold {threshold:.4f}" in line

    def value(threshold):
        if task == "classification":
            names = np.where(scores[:, 1] >= threshold, "verse", "tale")
            return accuracy_score(right, names)
        is_label = np.array([[name in labels.split(";") for name in "ab"] for labels in right])
        return f1_score(is_label, scores >= threshold, average="micro", zero_division=0)

    best = max(map(value, np.unique([0, 1, 0.5, *scores.ravel(), *(scores.ravel() + 1e-6)])))
    assert value(threshold) == pytest.approx(best)
    after = evaluate_finetuned(run, file=file)
    assert after.metrics[TASK_SPECS[task].best_metric] == pytest.approx(best)
    # Prediction files, pipelines of the run and of its served model, and Keras models.
    rows, again = read_probabilities(run, file, tmp_path / "after.csv")
    np.testing.assert_allclose(again, scores, atol=1e-6)
    if task == "classification":
        expected = np.where(scores[:, 1] >= threshold, "verse", "tale").tolist()
        assert [row["prediction"] for row in rows] == expected
        of_label = np.where(np.array(expected) == "verse", scores[:, 1], scores[:, 0])
        np.testing.assert_allclose([float(row["score"]) for row in rows], of_label, atol=1e-6)
    else:
        expected = [tuple(np.array(["a", "b"])[row >= threshold].tolist()) for row in scores]
        assert [tuple(filter(None, row["prediction"].split(";"))) for row in rows] == expected
    export(run, tmp_path / "hub", check=False)
    for source in (run, tmp_path / "hub/serving"):
        answers = albert_tf.pipeline(source)(SENTENCES)
        if task == "classification":
            assert [answer["label"] for answer in answers] == expected
            np.testing.assert_allclose([answer["score"] for answer in answers], of_label, atol=1e-4)
        else:
            assert [{label["label"] for label in answer} for answer in answers] == list(map(set, expected))
    served = tf.saved_model.load(str(tmp_path / "hub/serving/1")).signatures["serving_default"]
    outputs = served(text=tf.constant(SENTENCES))
    if task == "classification":
        assert [label.decode() for label in outputs["label"].numpy()] == expected
    model = albert_tf.TextClassifier.from_pretrained(run)
    assert model.predict_labels(SENTENCES) == expected
    np.testing.assert_allclose(model.predict_proba(SENTENCES), scores, atol=1e-5)
    given = right if task == "classification" else [[x in y.split(";") for x in "ab"] for y in right]
    figure = after.metrics["accuracy"]
    assert model.score(SENTENCES, given) == pytest.approx(figure)
    model.save_run(tmp_path / "again")
    assert json.loads((tmp_path / "again/task.json").read_text())["threshold"] == threshold


@pytest.mark.parametrize(
    ("task", "label", "named"), [("classification", "tale", "one label"), ("multi_label", "", "no label")]
)
def test_no_threshold_is_chosen_by_one_label(run_of, task, label, named):
    file, _, run = run_of(task)
    before = [(run / name).read_bytes() for name in ("task.json", "recipe.json")]
    rows = [{**json.loads(line), "kind": label} for line in file.read_text().splitlines()]
    write_jsonl(file, rows)
    line = choose_threshold(run, evaluate_finetuned(run, file=file).sets)
    assert named in line and str(len(rows)) in line
    assert [(run / name).read_bytes() for name in ("task.json", "recipe.json")] == before


def test_a_threshold_can_be_anywhere(run_of, tmp_path):
    file, _, run = run_of("classification")
    _, scores = read_probabilities(run, file, tmp_path / "a.csv")
    found = evaluate_finetuned(run, file=file)
    for threshold, label in ((scores[:, 1].min() / 2, "verse"), ((scores[:, 1].max() + 1) / 2, "tale")):
        moved = found.with_threshold(float(threshold)).predictions["dev"].predictions
        assert {prediction.value for prediction in moved} == {label}


@pytest.mark.slow
def test_training_chooses_it_and_goes_on_with_it(asked, table, tmp_path):
    file, kinds = table("classification")
    made = asked(tmp_path / "run", train=file, eval=file, columns=COLUMNS, threshold="auto")
    lines = []
    dev = finetune(made, lines.append)
    assert len(dev["dev"]) == len(SENTENCES)
    threshold = RunDirectory(made.output).task["threshold"]
    (line,) = (line for line in lines if line.startswith("threshold"))
    assert line.startswith(f"threshold {threshold:.4f} (accuracy ")
    # What is stored and shown is at that threshold.
    _, scores = read_probabilities(made.output, file, tmp_path / "a.csv")
    right = np.array(kinds) == "verse"
    accuracy = accuracy_score(right, scores[:, 1] >= threshold)
    assert accuracy > accuracy_score(right, scores[:, 1] >= 0.5)
    stored = best_metrics(RunDirectory(made.output))
    assert stored["accuracy"] == pytest.approx(accuracy)
    assert stored["f1"] == pytest.approx(f1_score(right, scores[:, 1] >= threshold, average="macro"))
    assert stored["loss"] == pytest.approx(log_loss(right, scores[:, 1].astype(float)), rel=1e-4)
    assert any(line.startswith("best: ") and f"accuracy {accuracy:.3f}" in line for line in lines)
    best = evaluate_finetuned(made.output, file=file)
    others = [best.with_threshold(other).metrics["accuracy"] for other in np.linspace(0.01, 0.99, 99)]
    assert best.metrics["accuracy"] >= max(others)
    assert best.report(made.output).notes[1].endswith("optimistic: the step, the threshold")
    file.write_text("".join(file.read_text().splitlines(keepends=True)[1:]))  # other examples
    assert len(evaluate_finetuned(made.output, file=file).report(made.output).notes) == 1
    table("classification")
    finetune(dataclasses.replace(made, recipe={**made.recipe, "steps": 8}), lines.append)  # goes on
    assert any(line.endswith("; extended from 6") for line in lines)
    best = evaluate_finetuned(made.output, file=file)
    assert best_metrics(RunDirectory(made.output))["accuracy"] == pytest.approx(best.metrics["accuracy"])
    with pytest.raises(InputError, match=r"threshold is .* there and 0\.3 here"):
        finetune(dataclasses.replace(made, threshold=0.3), lines.append)
    report = best.report(made.output)
    assert report.notes[1].endswith("optimistic: the step, the threshold")
    curve = next(table for table in report.tables if table.name == "learning_curve_loss")
    assert {row[0] for row in curve.rows} == {"loss", "loss (held out)"}
    assert [row[1] for row in curve.rows if row[0] == "loss"] == [2, 4, 6, 8]


@pytest.mark.slow
def test_a_run_that_is_done_chooses_one(finetuned, asked, own_table, tmp_path):
    shutil.copytree(finetuned, tmp_path / "run")
    made, lines, written = asked(tmp_path / "run", threshold="auto"), [], []

    def killed(path, values):
        if written:
            raise KeyboardInterrupt
        written.append(path)
        write_json(path, values)

    with pytest.MonkeyPatch.context() as patch:  # between the two files that it is written to
        patch.setattr(evaluation_module, "write_json", killed)
        with pytest.raises(KeyboardInterrupt):
            finetune(made)
    finetune(made, lines.append)
    threshold = RunDirectory(made.output).task["threshold"]
    assert any(line.startswith(f"threshold {threshold:.4f}") for line in lines)
    again = []
    finetune(dataclasses.replace(made, threshold=None), again.append)  # the first command again
    assert again == lines and RunDirectory(made.output).task["threshold"] == threshold
    task = {**RunDirectory(finetuned).task, "threshold": 0.3}
    (tmp_path / "run/recipe.json").write_text((finetuned / "recipe.json").read_text())
    (tmp_path / "run/task.json").write_text(json.dumps(task))
    with pytest.raises(InputError, match=r"threshold is 0\.3 there and 'auto' here"):
        finetune(made)


def test_predictions_at_a_threshold_come_first(run_of, tmp_path):
    file, _, run = run_of("classification")
    _, scores = read_probabilities(run, file, tmp_path / "a.csv")
    threshold = float(np.median(scores[:, 1]))
    change_json(run / "task.json", threshold=threshold)
    for name, options in (("plain", {}), ("best", {"top_k": 2})):
        predict(run, file, tmp_path / f"{name}.jsonl", **options)
    plain, best = (
        [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("plain", "best")
    )
    expected = np.where(scores[:, 1] >= threshold, "verse", "tale").tolist()
    assert set(expected) == {"verse", "tale"}
    assert [row["prediction"] for row in plain] == [row["prediction"][0] for row in best] == expected
    assert [row["score"] for row in plain] == [row["score"][0] for row in best]
    assert any(row["score"] < 0.5 for row in plain)
    answers = albert_tf.pipeline(run)(SENTENCES, top_k=2)
    assert [answer[0]["label"] for answer in answers] == expected


@pytest.mark.slow
def test_a_report_of_a_folder_of_glue(saved, tmp_path, capsys):
    labels = write_glue(tmp_path / "MNLI", "mnli", 7)
    run, folder = saved("mnli"), tmp_path / "report"
    words = ["evaluate", "--run", str(run), "--data", str(tmp_path / "MNLI"), "--report", str(folder)]
    assert cli.run(words) == 0
    printed = capsys.readouterr()
    assert set(json.loads(printed.out)) == {"step", "examples", "accuracy_matched", "accuracy_mismatched"}
    assert "precision" in printed.err and str(folder / "report.html") in printed.err
    content = json.loads((folder / "report.json").read_text())
    assert content["tables"]["labels"][-1]["support"] == len(labels["dev_matched"]) * 2 == 14
    rows = content["tables"]["confusion"]
    assert sum(count for row in rows for name, count in row.items() if name != "true label") == 14
    assert {"labels.csv", "confusion.png", "calibration.png", "precision_recall.png", "errors.csv"} <= {
        path.name for path in folder.iterdir()
    }
    assert f"{folder} exists already" in mistake(capsys, *words)
    assert cli.run([*words[:-2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == content


def test_what_has_no_labels_has_no_probabilities(run_of, saved, tmp_path, capsys):
    file, _, run = run_of("regression")
    write_glue(tmp_path / "RTE", "rte")
    for source, other in ((file, run), (tmp_path / "RTE/test.tsv", saved("rte"))):
        words = ["predict", "--run", other, "--input", source, "--output", tmp_path / "a.tsv"]
        assert "--probabilities" in mistake(capsys, *words, "--probabilities")
        assert "--top_k" in mistake(capsys, *words, "--top_k", 2)
    file, _, run = run_of("classification")
    words = ["predict", "--run", run, "--input", file, "--output"]
    assert "top_k=0" in mistake(capsys, *words, tmp_path / "a.csv", "--top_k", 0)
    assert cli.run([*map(str, words), str(tmp_path / "a.jsonl"), "--top_k", "2"]) == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert all(sorted(row["prediction"]) == ["tale", "verse"] for row in rows)
    assert all(row["score"] == sorted(row["score"])[::-1] for row in rows)
    capsys.readouterr()
    taken = tmp_path / "taken.csv"
    taken.write_text("text,probability_tale\na,0\n")
    words = ["predict", "--run", run, "--input", taken, "--output", tmp_path / "b.csv", "--probabilities"]
    assert "probability_tale" in mistake(capsys, *words)
    assert not (tmp_path / "b.csv").exists()


def test_a_threshold_is_between_two_labels(tmp_path):
    file = write_jsonl(tmp_path / "own.jsonl", [{"text": name, "kind": name} for name in "abc"])
    records = TASK_SPECS["classification"].format.read(file, True, COLUMNS)
    with pytest.raises(InputError, match=r"threshold: .* 3"):
        task_entries("classification", records, 32, COLUMNS, threshold=0.3)


def test_without_entities_f1_is_null(saved, tmp_path, capsys):
    file = tmp_path / "none.conll"
    file.write_text("one O\ntwo O\n\nthree O\n")
    run = saved("tagging", [TaggedRecord("f", 1, ("a", "b"), ("O", "B-X"))])
    for flags in ([], ["--json"]):
        assert cli.run(["evaluate", "--run", str(run), "--eval", str(file), *flags]) == 0
        found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)  # called with NaN
        assert found["f1"] is found["recall"] is None and found["examples"] == 2
    assert "undefined" in found["notes"][0]
