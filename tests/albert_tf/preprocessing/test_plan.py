"""What is there already when `prepare` begins: of an older version, too, which knew fewer settings."""

import json

import pytest

from albert_tf.preprocessing.plan import Preparation, begin, state_of
from albert_tf.tokenizers.kinds import saved_tokenizer
from albert_tf.utils.errors import InputError


@pytest.fixture
def plan(tiny_vocabulary, tmp_path):
    """A plan for the folder `out`, some of its settings changed."""

    def make(**changes) -> Preparation:
        output, tokenizer = str(tmp_path / "out"), saved_tokenizer(tiny_vocabulary)
        return Preparation(
            **{"files": (("a.txt", 7),), "output": output, "tokenizer": tokenizer, "shards": 1, **changes}
        )

    return make


@pytest.fixture
def older(plan):
    """The settings that the first version wrote; all that came later is to have its default."""
    return {
        "files": [["a.txt", 7]],
        "shards": 1,
        "seed": 0,
        "vocabulary": plan().tokenizer.open().vocabulary.fingerprint,
    }


def test_a_corpus_of_an_older_version_is_done(plan, older, tmp_path):
    folder, shard = tmp_path / "out", "train-00000-of-00001.tfrecord"
    folder.mkdir()
    (folder / shard).touch()
    stats = {"settings": older, "shards": {shard: {}}, "vocabulary": older["vocabulary"]}
    (folder / "stats.json").write_text(json.dumps({**stats, "lowercase": True, "strip_accents": True}))
    assert state_of(plan()) == "done"
    with pytest.raises(InputError, match="dedup is False there and True here"):
        state_of(plan(dedup=True))


def test_an_unfinished_corpus_of_an_older_version_goes_on(plan, older, tmp_path):
    folder = tmp_path / "out" / "unfinished"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(older))
    assert state_of(plan()) == "goes on"
    with pytest.raises(InputError, match="dedup is False there and True here"):
        state_of(plan(dedup=True))


@pytest.mark.parametrize("name", ["train-a.txt", "train-00000-of-00002.tfrecord", "deep/notes.txt"])
def test_a_folder_with_something_else_is_refused(plan, tmp_path, name):
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(FileExistsError, match=name.split("/")[0]):
        state_of(plan())
    assert path.read_text() == "mine"


def test_what_a_killed_process_left_of_other_settings_counts_for_nothing(plan, tmp_path):
    """It had removed the settings, and not yet what its tasks had finished."""
    folder = tmp_path / "out" / "unfinished"
    folder.mkdir(parents=True)
    (folder / "run-000000.json").write_text("{}")
    begin(plan(), state_of(plan()))
    assert [path.name for path in folder.iterdir()] == ["settings.json"]
