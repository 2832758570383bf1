"""Cross-validation: each record is predicted by the run that has not seen it."""

import json

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, log_loss

from albert_tf.checkpoints import RunDirectory
from albert_tf.checkpoints.directory import best_run
from albert_tf.finetuning import folds as folds_module
from albert_tf.finetuning import runs
from albert_tf.finetuning.folds import finetune_folds
from albert_tf.finetuning.runs import finetune_runs
from albert_tf.finetuning.task_table import TASKS
from albert_tf.finetuning.trained import read_trained
from albert_tf.tasks.datasets.columns import Columns
from albert_tf.tasks.kind import Prediction
from albert_tf.utils.errors import InputError
from tests.albert_tf.commands import mistake
from tests.albert_tf.finetuning.runs import RECIPE, ROWS

SHORT = {"eval": None, "recipe": {**RECIPE, "steps": 2, "warmup_steps": 1}, "loop": {"log_every": 0}}


@pytest.fixture(scope="module")
def crossed(asked, made_once):
    """Two folds of two updates that choose thresholds; a second call has trained the second one."""

    def write(folder):
        made, original = asked(folder, threshold="auto", **SHORT), runs.finetune

        def stopped(settings, report):
            if settings.fold.number == 2:
                raise KeyboardInterrupt
            original(settings, report)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "finetune", stopped)
            with pytest.raises(KeyboardInterrupt):
                finetune_folds(made, 2)
        assert {path.name for path in folder.iterdir()} == {"fold-1"}
        before = (folder / "fold-1/checkpoints").stat().st_mtime_ns
        lines = []
        _, found = finetune_folds(made, 2, lines.append)
        (folder / "report.json").write_text(json.dumps(found.report(folder).content()))
        assert (folder / "fold-1/checkpoints").stat().st_mtime_ns == before
        (folder / "log").write_text("\n".join(lines))
        (folder / "found.json").write_text(json.dumps({"notes": found.notes, "figures": found.figures}))

    return made_once("crossed", write)


def out_of_fold(folder):
    return [json.loads(line) for line in (folder / "out_of_fold.jsonl").read_text().splitlines()]


def test_each_row_is_predicted_by_the_run_of_its_fold(crossed, own_table):
    rows = out_of_fold(crossed)
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert set(rows[0]) - set(ROWS[0]) == {"fold", "prediction", "score"}
    numbers = [row["fold"] for row in rows]
    records = TASKS["classification"].format.read(own_table, True, Columns("text", None, "kind"))
    for fold in (1, 2):
        chosen = [n for n, number in enumerate(numbers) if number == fold]
        assert abs(len(chosen) - len(rows) / 2) <= 1
        run = RunDirectory(crossed / f"fold-{fold}")
        assert run.recipe["fold"] == f"{fold} of 2"
        assert run.recipe["examples"] == len(rows) - len(chosen)
        assert run.recipe["eval_examples"] == {"dev": len(chosen)}
        found = read_trained(run.path).predicted([records[n] for n in chosen]).predictions
        assert [x.value for x in found] == [rows[n]["prediction"] for n in chosen]
        np.testing.assert_allclose([x.score for x in found], [rows[n]["score"] for n in chosen], rtol=1e-5)


def test_the_summary_is_of_all_folds(crossed):
    rows, summary = out_of_fold(crossed), json.loads((crossed / "summary.json").read_text())
    accuracies = {}
    for fold in (1, 2):
        pairs = [(row["kind"], row["prediction"]) for row in rows if row["fold"] == fold]
        accuracies[f"fold-{fold}"] = accuracy_score(*zip(*pairs, strict=True))
    for name, accuracy in accuracies.items():
        assert summary["runs"][name]["accuracy"] == pytest.approx(accuracy)
    assert summary["mean"]["accuracy"] == pytest.approx(np.mean(list(accuracies.values())))
    assert summary["best"]["accuracy"] == pytest.approx(max(accuracies.values()))
    assert best_run(crossed).path == str(crossed / summary["best_run"])
    assert f"accuracy {summary['mean']['accuracy']:.4g}" in (crossed / "log").read_text()


def test_the_report_is_of_all_rows_out_of_fold(crossed):
    rows, report = out_of_fold(crossed), json.loads((crossed / "report.json").read_text())
    right, predicted = [row["kind"] for row in rows], [row["prediction"] for row in rows]
    assert report["examples"] == len(rows) and "step" not in report
    assert report["accuracy"] == pytest.approx(accuracy_score(right, predicted))
    second = [row["score"] if row["prediction"] == "tale" else 1 - row["score"] for row in rows]
    assert report["loss"] == pytest.approx(log_loss(np.array(right) == "tale", second), rel=1e-4)
    assert sum(row["support"] for row in report["tables"]["labels"] if row["label"] in right) == len(rows)
    assert not any(name.startswith("learning_curve") for name in report["tables"])


def test_thresholds_of_folds_are_optimistic(crossed):
    summary, found = (json.loads((crossed / name).read_text()) for name in ("summary.json", "found.json"))
    lines = (crossed / "log").read_text().splitlines()
    assert summary["notes"] == found["notes"] and summary["notes"][0] in lines
    assert "optimistic" in lines[-1]
    assert all(0 < RunDirectory(crossed / f"fold-{fold}").task["threshold"] < 1 for fold in (1, 2))
    pairs = [(row["kind"], row["prediction"]) for row in out_of_fold(crossed)]
    assert found["figures"]["accuracy"] == pytest.approx(accuracy_score(*zip(*pairs, strict=True)))


def test_a_folder_of_folds_stays_one(asked, crossed):
    with pytest.raises(InputError, match="fold is '1 of 2' there and '1 of 3' here"):
        finetune_folds(asked(crossed, **SHORT), 3)
    with pytest.raises(InputError, match="holds fold-1: name another --output for seed-0"):
        finetune_runs(asked(crossed, **SHORT), 1)


def test_impossible_folds(asked, tmp_path, capsys):
    file = tmp_path / "own.csv"
    file.write_text("text,kind,fold\na boat,a,1\na bee,b,2\nbees,a,1\n")
    for folds, changes, message in (
        (1, {}, "folds=1"),
        (2, {"eval": file}, "^eval and folds: "),
        (4, {"train": file}, "too little for folds=4: at most 3"),
        (2, {"train": file}, "column 'fold'"),
    ):
        with pytest.raises(InputError, match=message):
            finetune_folds(asked(tmp_path / "run", **{**SHORT, **changes}), folds)
    words = ["finetune", "--task", "rte", "--data", "RTE", "--init_from", "r", "--output", "run"]
    assert "folds: of no use to task='rte'" in mistake(capsys, *words, "--folds", "3")
    assert "--runs" in mistake(capsys, *words, "--folds", "3", "--runs", "3")
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_no_table_does_not_say_the_fold(asked, tmp_path):
    tags = tmp_path / "own.conll"
    tags.write_text("one B-X\ntwo O\n\nthree O\n")
    made = asked(task="tagging", train=tags, eval=None, columns=None)
    predictions = [
        Prediction(("O", "O"), np.float32([0.5, 0.75])),
        Prediction(("B-X",), np.float32([0.25])),
    ]
    files = folds_module._files(made, made.entry.format.read(tags, True, None), [1, 2])(predictions)
    assert files == {"out_of_fold.conll": "one B-X O 0.5\ntwo O O 0.75\n\nthree O B-X 0.25\n"}
