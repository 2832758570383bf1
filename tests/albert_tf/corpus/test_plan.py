"""What is there already when `prepare` begins: of an older version, too, which knew fewer settings."""

import json

import pytest

from albert_tf.corpus.plan import Preparation, begin
from albert_tf.errors import InputError


@pytest.fixture
def plan(tiny_vocabulary, tmp_path):
    """A plan for the folder `out`, some of its settings changed."""

    def make(**changes) -> Preparation:
        output, model = str(tmp_path / "out"), tiny_vocabulary.read_bytes()
        return Preparation(files=(("a.txt", 7),), output=output, model=model, shards=1, **changes)

    return make


@pytest.fixture
def older(plan):
    """The settings that the first version wrote; all that came later is to have its default."""
    return {"files": [["a.txt", 7]], "shards": 1, "seed": 0, "vocabulary": plan().vocabulary.fingerprint}


def test_a_corpus_of_an_older_version_is_done(plan, older, tmp_path):
    folder, shard = tmp_path / "out", "train-00000-of-00001.tfrecord"
    folder.mkdir()
    (folder / shard).touch()
    stats = {"settings": older, "shards": {shard: {}}, "vocabulary": older["vocabulary"]}
    (folder / "stats.json").write_text(json.dumps({**stats, "lowercase": True, "strip_accents": True}))
    assert begin(plan()) == "done"
    with pytest.raises(InputError, match=r"settings: dedup is False there and True here\. Name another"):
        begin(plan(dedup=True))


def test_an_unfinished_corpus_of_an_older_version_goes_on(plan, older, tmp_path):
    folder = tmp_path / "out" / "unfinished"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(older))
    assert begin(plan()) == "goes on"
    assert begin(plan(dedup=True)) == "starts over"
    assert begin(plan(dedup=True)) == "goes on"
