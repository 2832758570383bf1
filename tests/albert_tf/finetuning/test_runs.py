"""Several seeds: what they have in common, and going on where a call stopped."""

import json
import shutil
import statistics

import pytest

import albert_tf
from albert_tf import cli
from albert_tf.errors import InputError
from albert_tf.finetuning import finetune, reports
from albert_tf.finetuning.finetune import finetune_runs
from albert_tf.runs.checkpoints import checkpoint_steps
from albert_tf.runs.run_directory import RunDirectory, best_run
from tests.albert_tf.commands import mistake
from tests.albert_tf.finetuning.runs import RECIPE
from tests.albert_tf.pretraining.runs import empty_checkpoints, metrics, weights

SHORT = {**RECIPE, "steps": 2, "warmup_steps": 1}


@pytest.mark.slow
def test_each_seed_is_a_run_and_the_summary_is_of_all(asked, tmp_path, monkeypatch):
    folder, lines, original = tmp_path / "runs", [], finetune.finetune
    made = asked(folder, seed=4, recipe=SHORT, loop={"log_every": 0, "eval_every": 1})

    def stopped(settings, report):
        if settings.seed == 5:
            raise KeyboardInterrupt
        original(settings, report)

    with monkeypatch.context() as patch:
        patch.setattr(finetune, "finetune", stopped)
        with pytest.raises(KeyboardInterrupt):
            finetune_runs(made, 2, lines.append)
    assert not (folder / "summary.json").exists()
    before = (folder / "seed-4/checkpoints").stat().st_mtime_ns
    finetune_runs(made, 2, lines.append)
    assert before == (folder / "seed-4/checkpoints").stat().st_mtime_ns  # it was finished
    assert [line for line in lines if line.startswith("run ")] == [
        f"run 1 of 2: {folder / 'seed-4'}", f"run 2 of 2: {folder / 'seed-5'}"
    ] * 2  # fmt: skip
    assert {path.name for path in folder.iterdir()} == {"seed-4", "seed-5", "summary.json"}
    for seed in (4, 5):
        assert json.loads((folder / f"seed-{seed}" / "recipe.json").read_text())["seed"] == seed
        assert checkpoint_steps(folder / f"seed-{seed}") == [1, 2]
    kernels = [weights(folder / name)["pooler/dense/kernel:0"] for name in ("seed-4", "seed-5")]
    assert abs(kernels[0] - kernels[1]).max() > 0.01

    found = json.loads((folder / "summary.json").read_text())
    best = {}
    for name in ("seed-4", "seed-5"):
        lines = [line for line in metrics(folder / name) if "eval_accuracy" in line]
        best[name] = max(lines, key=lambda line: (line["eval_accuracy"], -line["step"]))
        assert found["runs"][name] == {key.removeprefix("eval_"): x for key, x in best[name].items()}
    assert found["best_by"] == "accuracy"
    for figure in ("accuracy", "f1", "loss"):
        values = [line[f"eval_{figure}"] for line in best.values()]
        assert found["median"][figure] == statistics.median(values)
        assert found["best"][figure] == best[found["best_run"]][f"eval_{figure}"]
        assert found["spread"][figure] == max(values) - min(values)
    assert found["best"]["accuracy"] == max(line["eval_accuracy"] for line in best.values())


@pytest.mark.slow
def test_the_folder_stands_for_its_best_run(finetuned, own_table, tmp_path, capsys):
    """For `evaluate` and `predict`, which say which it is; other runs stand for themselves."""
    folder = tmp_path / "runs"
    for name in ("seed-0", "seed-1"):
        shutil.copytree(finetuned, folder / name)
    (folder / "seed-0/spiece.model").unlink()  # it cannot answer
    evaluate = ["evaluate", "--run", folder, "--eval", own_table]
    predict = ["predict", "--run", folder, "--input", own_table, "--output", tmp_path / "out.jsonl"]
    for words in (evaluate, predict):
        assert "summary.json" in mistake(capsys, *words)
    (folder / "summary.json").write_text('{"best_run": "seed-7"}')
    assert "best_run=" in mistake(capsys, *evaluate)
    (folder / "summary.json").write_text('{"best_run": "seed-1"}')
    for words in (evaluate, predict):
        assert cli.run([*map(str, words)]) == 0
        printed = capsys.readouterr()
        assert str(folder / "seed-1") in printed.err
    (answer,) = albert_tf.pipeline(folder)(["a boat"])
    assert answer == albert_tf.pipeline(folder / "seed-1")(["a boat"])[0]
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(own_table.read_text().splitlines())
    for name in ("seed-0", "nowhere"):
        assert best_run(folder / name).path == str(folder / name)


def pretended(folder, name, values, best_by="eval_pearson"):
    run = folder / name
    empty_checkpoints(run, values)
    (run / "task.json").write_text(json.dumps({"model": "classifier", "num_labels": 2, "best_by": best_by}))
    for step, (pearson, loss) in values.items():
        with (run / "metrics.jsonl").open("a") as file:
            file.write(json.dumps({"step": step, "loss": 9.0}) + "\n")
            file.write(json.dumps({"step": step, "eval_pearson": pearson, "eval_loss": loss}) + "\n")
    return run


def test_median_best_and_spread_by_hand(tmp_path):
    def summary(runs):
        return reports.summary({run.name: RunDirectory(run) for run in runs})

    made = [
        pretended(tmp_path, "seed-0", {1: (0.5, 1.0), 2: (0.7, 2.0)}),
        pretended(tmp_path, "seed-1", {1: (0.9, 4.0), 2: (0.8, 0.5)}),
        pretended(tmp_path, "seed-2", {1: (None, 3.0)}),  # whose predictions are all alike
        pretended(tmp_path, "seed-3", {1: (0.1, 1.5)}),
    ]
    assert summary(made) == {
        "best_by": "pearson",
        "best_run": "seed-1",
        "mean": {"pearson": pytest.approx(1.7 / 3), "loss": 2.625},
        "median": {"pearson": 0.7, "loss": 2.5},
        "best": {"pearson": 0.9, "loss": 4.0},
        "spread": {"pearson": 0.8, "loss": 2.5},
        "runs": {
            "seed-0": {"step": 2, "pearson": 0.7, "loss": 2.0},
            "seed-1": {"step": 1, "pearson": 0.9, "loss": 4.0},
            "seed-2": {"step": 1, "pearson": None, "loss": 3.0},
            "seed-3": {"step": 1, "pearson": 0.1, "loss": 1.5},
        },
    }
    assert summary(made[2:3])["best_run"] == "seed-2"
    assert summary(made[2:])["median"] == {"pearson": 0.1, "loss": 2.25}
    by_loss = [
        pretended(tmp_path, f"loss-{n}", {1: (0.5, loss), 2: (0.9, 3.0)}, "eval_loss")
        for n, loss in enumerate((0.4, 0.3, 0.5))
    ]
    found = summary(by_loss)
    assert (found["best_by"], found["best_run"], found["best"]["loss"]) == ("loss", "loss-1", 0.3)
    assert found["runs"]["loss-1"]["step"] == 1
    # Of equals that of the lower loss.
    equal = [pretended(tmp_path, f"seed-{seed}", {1: (0.7, loss)}) for seed, loss in ((5, 2.5), (6, 1.5))]
    assert summary([made[0], *equal])["best_run"] == "seed-6"


def test_a_host_that_is_not_the_chief_writes_no_summary(asked, tmp_path, monkeypatch):
    monkeypatch.setattr(finetune, "finetune", lambda *_: {})
    run, dev = finetune_runs(asked(tmp_path / "runs"), 2)
    assert (run.path, dev) == (str(tmp_path / "runs/seed-1"), {})
    assert not (tmp_path / "runs").exists()


def test_impossible_runs(asked, finetuned, tmp_path):
    """Which shows before the first one has trained for hours."""
    for made, count, message in (
        (asked(tmp_path / "runs"), 0, "runs=0"),
        (asked(finetuned), 2, "run is a single run"),
        (asked(tmp_path / "runs", seed=2**31 - 1, recipe=SHORT), 2, "seed=2147483648"),
    ):
        with pytest.raises(InputError, match=message):
            finetune_runs(made, count)
    assert not (tmp_path / "runs").exists()
