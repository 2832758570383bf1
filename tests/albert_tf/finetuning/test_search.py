"""A search for hyper-parameters: a run for each combination, and the best of them."""

import itertools
import json

import pytest

from albert_tf.checkpoints.directory import best_run
from albert_tf.cli.flags import values_given
from albert_tf.finetuning import runs, search
from albert_tf.finetuning.recipes import FinetuningRecipe
from albert_tf.finetuning.search import finetune_search
from albert_tf.utils.errors import InputError
from tests.albert_tf.commands import mistake
from tests.albert_tf.finetuning.runs import RECIPE
from tests.albert_tf.pretraining.runs import metrics

SHORT = {
    "recipe": {**{name: RECIPE[name] for name in ("batch_size", "seq_length")}, "steps": 2},
    "loop": {"log_every": 0, "eval_every": 1},
}
SEARCH = {"learning_rate": [1e-9, 0.01], "dropout": [0.1]}


@pytest.fixture(scope="module")
def searched(asked, made_once):
    """Two trials of two updates, the second of which a second call has trained."""

    def write(folder):
        made, original = asked(folder, **SHORT), runs.finetune

        def stopped(settings, report):
            if settings.output.endswith("trial-2"):
                raise KeyboardInterrupt
            original(settings, report)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(runs, "finetune", stopped)
            with pytest.raises(KeyboardInterrupt):
                finetune_search(made, SEARCH)
        before = (folder / "trial-1/checkpoints").stat().st_mtime_ns
        lines = []
        finetune_search(made, SEARCH, report=lines.append)
        assert (folder / "trial-1/checkpoints").stat().st_mtime_ns == before
        (folder / "log").write_text("\n".join(lines))

    return made_once("searched", write)


def test_the_best_combination(searched):
    summary = json.loads((searched / "summary.json").read_text())
    expected = {
        "trial-1": {"learning_rate": 1e-9, "dropout": 0.1},
        "trial-2": {"learning_rate": 0.01, "dropout": 0.1},
    }
    assert summary["settings"] == expected
    best = {}
    for name, chosen in expected.items():
        recipe = json.loads((searched / name / "recipe.json").read_text())
        assert recipe["trial"] == chosen
        assert {key: recipe[key] for key in chosen} == chosen
        lines = [line for line in metrics(searched / name) if "eval_accuracy" in line]
        best[name] = max((line["eval_accuracy"], -line["eval_loss"]) for line in lines)
    assert summary["best_run"] == max(best, key=best.__getitem__)
    assert best_run(searched).path == str(searched / summary["best_run"])
    assert (searched / "log").read_text().splitlines()[-4:] == [
        "trial    learning_rate  dropout  accuracy",
        f"trial-1  1e-09          0.1      {best['trial-1'][0]:.4g}",
        f"trial-2  0.01           0.1      {best['trial-2'][0]:.4g}",
        f"{summary['best_run']} is the best by accuracy; of equals the lower loss, then the first",
    ]


def test_trials_keep_their_settings(asked, searched):
    lines = []
    for rates, message in (
        ([0.01, 1e-9], r"trial-1 .* is of .*1e-09, .* and of .*0.01"),
        ([1e-9, 0.1], r"trial-2 .* is of .*0\.01, .* and of .*0\.1"),
    ):
        with pytest.raises(InputError, match=message):
            finetune_search(asked(searched, **SHORT), {**SEARCH, "learning_rate": rates}, report=lines.append)
    assert lines == []  # before the first one trains


def test_trials_are_drawn_by_the_seed(asked, tmp_path, monkeypatch):
    drawn = []

    def trained(settings, changes, report, further):
        drawn.append([tuple(made["trial"].values()) for made in changes.values()])
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "finetune_each", trained)
    values = {"learning_rate": [1e-5, 3e-5, 1e-4], "batch_size": [8, 16]}
    for trials, seed in ((None, 0), (4, 0), (2, 0), (4, 1), (9, 0)):
        with pytest.raises(KeyboardInterrupt):
            made = asked(tmp_path / "run", seed=seed, recipe={"steps": 2})
            finetune_search(made, values, trials)
    everything = list(itertools.product(*values.values()))
    assert drawn[0] == everything
    assert len(set(drawn[1])) == 4 and set(drawn[1]) < {*everything}
    assert drawn[2] == drawn[1][:2]  # more trials go on with these
    assert drawn[3] != drawn[1]
    assert len(drawn[4]) == 6 and set(drawn[4]) == {*everything}


def test_impossible_searches(asked, tmp_path, capsys):
    for values, trials, message in (
        ({"seed": [1, 2]}, None, "search='seed' is none of learning_rate, "),
        ({"batch_size": [8, 16]}, None, "batch_size: it is given and searched"),
        ({"learning_rate": [0.1, 0.1]}, None, r"learning_rate=\[0.1, 0.1\]"),
        ({"learning_rate": [0.1, -1.0]}, None, "learning_rate=-1.0"),  # before the first one trains
        (SEARCH, 0, "trials=0"),
    ):
        with pytest.raises(InputError, match=message):
            finetune_search(asked(tmp_path / "run", **SHORT), values, trials)
    words = ["finetune", "--task", "rte", "--data", "RTE", "--init_from", "r", "--output", tmp_path / "run"]
    for more, message in (
        (["--search", "rate=1"], "'rate' is none of learning_rate, "),
        (["--search", "batch_size=8", "batch_size=16"], "'batch_size' is given twice"),
        (["--search", "batch_size=8.5"], "values must be of type int"),
        (["--search", "batch_size=8", "--folds", "2"], "--search"),
        (["--trials", "3"], "--trials: of no use to a training without --search"),
    ):
        assert message in mistake(capsys, *words, *more)
    assert not (tmp_path / "run").exists()


def test_values_of_the_command_line():
    words = ["learning_rate=1e-5,3e-5", "batch_size=16", "class_weight=balanced,none", "pooling=first,mean"]
    assert values_given(words, FinetuningRecipe) == {
        "learning_rate": [1e-5, 3e-5],
        "batch_size": [16],
        "class_weight": ["balanced", None],
        "pooling": ["first", "mean"],
    }
