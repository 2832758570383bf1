"""Values in the JSON files of a run: any that the code does not write is named with its file and key."""

import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import albert_tf
from albert_tf import pipeline
from albert_tf.errors import InputError
from albert_tf.runs.run_directory import RunContents, RunDirectory, best_run
from albert_tf.runs.schemas import TASK_SCHEMA, check_task
from tests.albert_tf.test_checks import VALUES
from tests.tiny import TINY

CONFIG = TINY.replace(num_hidden_layers=1)
TASK = {"model": "classifier", "num_labels": 2, "task": "classification", "labels": ["neg", "pos"]}


@pytest.fixture(scope="module")
def classifier(tmp_path_factory, tiny_vocabulary):
    """A run of two labels, with a checkpoint."""
    run = tmp_path_factory.mktemp("run") / "run"
    albert_tf.save(
        albert_tf.AlbertClassifier(CONFIG, 2),
        run,
        tiny_vocabulary,
        recipe={"seed": 1},
        task={**TASK, "seq_length": 16, "threshold": 0.25},
    )
    return run


@pytest.fixture
def written(classifier):
    """Writes a file of the run, which gets it back afterwards."""
    before = {}

    def write(name, content):
        path = classifier / name
        before.setdefault(path, path.read_bytes() if path.exists() else None)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return classifier

    yield write
    for path, content in before.items():
        path.unlink() if content is None else path.write_bytes(content)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("labels", value) for value in (["neg"], None, "ab", ["a", "a"], ["a", 1], {"a": 1, "b": 2}, [])),
        *(
            ("labels", value)
            for value in ([["a"], ["b"]], ["a", None], ["a", "b", "c"], ["a", ""], ["a", " "])
        ),
        *(("seq_length", value) for value in ("x", 0, -1, 16.5, True, None, 10**50, 65)),
        *(("threshold", value) for value in (2, -0.1, "0.5", None, True, [0.5])),
        *(("num_labels", value) for value in ("2", 0, None, 2.0, [2], 3)),
        *(("model", value) for value in (5, None, ["classifier"], "oracle")),
        *(("columns", value) for value in (5, {"text": 1}, {"label": "a"}, {"text": "a", "txt": "b"})),
        *(("long", value) for value in ("all", 5)),
        *(("task", value) for value in (5, "tagging", "squad-v2.0", "multi_label", "sts-b", "oracle")),
        *(("best_by", []), ("multi_label", "yes"), ("multi_label", 1)),
        *(("takes_pairs", None), ("early_exit", "no"), ("pooling", "max"), ("doc_stride", 0)),
    ],
)
def test_a_value_of_task_json_is_named(written, classifier, key, value):
    task = json.loads((classifier / "task.json").read_text())
    run = written("task.json", {**task, key: value})
    with pytest.raises(InputError, match=rf"^{re.escape(str(run))}/task\.json: .*{key}"):
        pipeline(run)


@pytest.mark.parametrize("name", ["task.json", "config.json", "tokenizer.json"])
def test_a_key_that_is_there_twice_is_named(written, classifier, name):
    text = (classifier / name).read_text()
    key = next(iter(json.loads(text)))
    run = written(name, text.replace("{", f'{{"{key}": 1,', 1))
    with pytest.raises(InputError, match=rf"^{re.escape(str(run))}/{name}: the key '{key}' is there 2 times"):
        pipeline(run)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_a_number_that_is_none_is_named(written, classifier, number):
    text = (classifier / "task.json").read_text().replace("0.25", number)
    with pytest.raises(InputError, match=r"task\.json: \['threshold'\]: -?(nan|inf) "):
        pipeline(written("task.json", text))


def test_a_threshold_is_between_two_labels():
    for task in (
        {**TASK, "num_labels": 3, "labels": ["a", "b", "c"]},
        {"model": "classifier", "num_labels": 1},
    ):
        with pytest.raises(InputError, match=r"threshold=0\.5"):
            check_task({**task, "threshold": 0.5})
        check_task({**task, "threshold": 0.5, "multi_label": True})


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(TASK_SCHEMA)), VALUES)
def test_no_value_is_a_bug(key, value):
    """Whatever somebody has written, it is right or an InputError with the key's name."""
    try:
        check_task({**TASK, key: value})
    except InputError as error:
        assert key in str(error) or "num_labels" in str(error)
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("kind", value) for value in (5, None, ["sentencepiece"], {"a": 1}, "unigram")),
        *(("lowercase", value) for value in ("yes", 1, None, [])),
    ],
)
def test_a_value_of_tokenizer_json_is_named(written, key, value):
    with pytest.raises(InputError, match=rf"tokenizer\.json: {key}="):
        pipeline(written("tokenizer.json", {"lowercase": True, key: value}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("vocabulary", value) for value in (5, None, ["a"])),
        *(("chosen_threshold", value) for value in (5, None, {"step": 0}, [])),
        ("chosen_threshold", {"step": "0", "eval_sha256": {}, "figures": {}}),
        ("chosen_threshold", {"step": 0, "eval_sha256": {}, "figures": {"f1": "x"}}),
        ("chosen_threshold", {"step": 0, "eval_sha256": {}, "figures": 5}),
        *(
            ("held_out", value)
            for value in ("1%", {}, {"of": "documents", "begin": "0", "end": 1, "what": ""})
        ),
        *(("train_files", value) for value in ("a", [5], [{"name": "a"}], [{"name": "a", "bytes": "7"}])),
        *(("steps", "x"), ("steps", -1), ("warmup_steps", 1.5), ("command", 5), ("xla", "yes")),
    ],
)
def test_a_value_of_recipe_json_is_named(written, key, value):
    run = written("recipe.json", {"seed": 1, key: value})
    with pytest.raises(InputError, match=rf"recipe\.json: .*{key}"):
        _ = RunDirectory(run).recipe


@pytest.mark.parametrize("name", [5, None, ["run"], "", ".", "..", "../run", "no", "run/", "checkpoints"])
def test_the_best_run_is_one_of_those_there(classifier, tmp_path, name):
    (tmp_path / "runs/seed-1").mkdir(parents=True)
    (tmp_path / "runs/summary.json").write_text(json.dumps({"best_run": name}))
    with pytest.raises(InputError, match=r"summary\.json: best_run="):
        best_run(tmp_path / "runs")


@pytest.mark.parametrize("content", ["", "[]", "null", "{", '"a"', '{"a": "\\ud800"}', "[" * 100_000])
@pytest.mark.parametrize("name", ["config.json", "task.json", "tokenizer.json", "recipe.json"])
def test_what_is_no_object_is_named(written, name, content):
    with pytest.raises(InputError, match=rf"{re.escape(name)}: "):
        _ = pipeline(run := written(name, content)), RunDirectory(run).recipe


def test_nothing_is_written_that_could_not_be_read(tmp_path):
    for task in ({**TASK, "labels": ["a", "a"]}, {**TASK, "threshold": math.nan}):
        with pytest.raises(InputError, match=r"labels|threshold"):
            RunDirectory(tmp_path / "run").create(RunContents(CONFIG, task))
    assert list(tmp_path.iterdir()) == []


def test_what_is_right_is_read(written, classifier):
    figures = {"f1": 0.5, "auc": None, "accuracy": 1}
    chosen = {"step": 0, "eval_sha256": {"dev": "abc"}, "figures": figures}
    file = {"name": "a.txt", "bytes": 7, "sha256": "0"}
    recipe = {"vocabulary": RunDirectory(classifier).recipe["vocabulary"], "steps": None, "xla": None}
    recipe |= {"chosen_threshold": chosen, "train_files": [file], "held_out": None}
    run = RunDirectory(written("recipe.json", {**recipe, "mine": [math.pi]}))
    assert run.evaluation(0) == figures
    task = {
        **TASK,
        "seq_length": 64,
        "threshold": 1,
        "mine": {"a": 1},
        "columns": {"text": "t", "label": "l"},
    }
    assert RunDirectory(written("task.json", task)).task == task
