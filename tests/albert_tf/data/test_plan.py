"""What is there already when `prepare` begins."""

import json

import pytest

from albert_tf.data.prepare_plan import PreparationPlan, begin_output, finish_output
from albert_tf.errors import InputError
from albert_tf.text.tokenizer import load_tokenizer_config

SHARD = "train-00000-of-00001.tfrecord"


@pytest.fixture
def plan(tiny_vocabulary, tmp_path):
    """A plan for the folder `out`, some of its settings changed."""

    def make(**changes) -> PreparationPlan:
        text = {"files": (("a.txt", 7),), "identities": ({"name": "a.txt", "bytes": 7, "sha256": "0"},)}
        place = {"output": str(tmp_path / "out"), "tokenizer": load_tokenizer_config(tiny_vocabulary)}
        return PreparationPlan(**text, **place, **{"shards": 1, **changes})

    return make


@pytest.fixture
def unfinished(tmp_path):
    """The folder of what `prepare` has begun in `out`."""
    folder = tmp_path / "out" / "unfinished"
    folder.mkdir(parents=True)
    return folder


def test_corpora_of_other_settings(plan, unfinished, tmp_path):
    """Finished or not. A corpus of documents has no settings of examples."""
    settings = plan().settings()
    differences = {
        r"settings: dedup is False there and True here\.": {"dedup": True},
        r"settings: format is 'documents' there and 'examples' here\.": {"format": "examples"},
    }
    (unfinished / "settings.json").write_text(json.dumps(settings))
    (unfinished / "run-000000.json").write_text("{}")
    assert begin_output(plan()) is None
    assert (unfinished / "run-000000.json").exists()
    for message, changes in differences.items():
        with pytest.raises(InputError, match=message):
            begin_output(plan(**changes))
    (unfinished / "settings.json").write_text("{")
    with pytest.raises(InputError, match=r"settings\.json is damaged: delete its folder"):
        begin_output(plan())

    (tmp_path / "out" / SHARD).touch()
    stats = {"settings": settings, "shards": {SHARD: {}}, "vocabulary": settings["vocabulary"]}
    (tmp_path / "out" / "stats.json").write_text(json.dumps(stats))
    assert begin_output(plan()) == stats
    for message, changes in differences.items():
        with pytest.raises(InputError, match=message):
            begin_output(plan(**changes))


@pytest.mark.parametrize("identities", [None, "a.txt", ["a.txt"], [{"name": "a.txt", "bytes": 7}]])
def test_settings_that_are_none_are_named(plan, unfinished, tmp_path, identities):
    """Of an unfinished corpus, and of a finished one."""
    settings = {**plan().settings(), "identities": identities}
    (unfinished / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(InputError, match=r"settings\.json is damaged: .*identities"):
        begin_output(plan())
    stats = {"settings": settings, "shards": {}, "vocabulary": settings["vocabulary"]}
    (tmp_path / "out" / "stats.json").write_text(json.dumps(stats))
    with pytest.raises(InputError, match=r"stats\.json.*identities"):
        begin_output(plan())


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("run-000000", {"counts": {"documents": "1"}, "slices": {}}, "documents='1'"),
        ("run-000000", {"slices": {}}, "counts"),
        ("run-000000", [], r"\[\]"),
        (SHARD, {"documents": 1, "sentences": 1, "tokens": -2, "dropped_duplicate": 0}, "tokens=-2"),
        (SHARD, {"documents": 1}, "sentences"),
    ],
)
def test_counts_of_a_finished_task_that_are_none_are_named(plan, unfinished, name, content, named):
    good = {
        "run-000000": {"counts": {"documents": 1}, "slices": {SHARD: [0, 9]}},
        SHARD: {"documents": 1, "sentences": 1, "tokens": 2, "dropped_duplicate": 0, "bytes": 9},
    }
    for file, value in {**good, name: content}.items():
        (unfinished / f"{file}.json").write_text(json.dumps(value))
    with pytest.raises(InputError, match=rf"{name}\.json is damaged: .*{named}"):
        finish_output(plan())


@pytest.mark.parametrize("name", ["train-a.txt", "deep/notes.txt"])
def test_a_folder_with_something_else_is_refused(plan, tmp_path, name):
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=name.split("/")[0]):
        begin_output(plan())
    assert path.read_text() == "mine"


def test_what_a_killed_process_left_of_other_settings_counts_for_nothing(plan, unfinished):
    """It had removed the settings, and not yet what its tasks had finished."""
    (unfinished / "run-000000.json").write_text("{}")
    assert begin_output(plan()) is None
    assert [path.name for path in unfinished.iterdir()] == ["settings.json"]
