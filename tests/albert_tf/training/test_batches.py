"""What is trained on and what is evaluated on."""

import json

import pytest
import tensorflow as tf

from albert_tf.training import batches


@pytest.fixture
def read(monkeypatch):
    """What is read of which files, as a list that grows."""
    calls = []

    def record(inputs, *, hash_range, **_):
        calls.append((list(inputs), hash_range))
        return tf.data.Dataset.range(1)

    monkeypatch.setattr(batches, "pretraining_dataset", record)
    return calls


def folder_of_prepare(path, *shards):
    path.mkdir()
    (path / "stats.json").write_text(json.dumps({"shards": list(shards)}))
    for shard in shards:
        (path / shard).touch()
    return str(path)


def made(settings):
    strategy = tf.distribute.get_strategy()
    batches.training_feed(settings, strategy, seed=0)
    batches.held_out_batches(settings)


def test_what_prepare_holds_out_is_evaluated_on_and_not_trained_on(settings, tmp_path, read):
    folder = folder_of_prepare(tmp_path / "a", "train-0", "eval-0", "eval-1")
    made(settings(train=[folder], eval=None))
    assert read == [([folder], None), ([f"{folder}/eval-0", f"{folder}/eval-1"], None)]


def test_a_hundredth_is_held_out_of_other_text(settings, tmp_path, read):
    folder = folder_of_prepare(tmp_path / "a", "train-0")
    made(settings(train=[folder, "b.txt"], eval=None))
    assert read == [([folder, "b.txt"], (0.01, 1.0)), ([folder, "b.txt"], (0.0, 0.01))]


def test_a_folder_to_evaluate_on_stands_for_what_it_holds_out(settings, tmp_path, read):
    folder = folder_of_prepare(tmp_path / "a", "train-0", "eval-0")
    made(settings(train=["b.txt"], eval=["c.txt", folder]))
    assert read == [(["b.txt"], None), (["c.txt", f"{folder}/eval-0"], None)]
    whole = folder_of_prepare(tmp_path / "b", "train-0")
    with pytest.raises(ValueError, match=r"b holds no documents to evaluate on: .*--eval_share"):
        made(settings(train=["b.txt"], eval=[whole]))


def test_what_is_evaluated_at_once_is_a_microbatch(settings):
    """So that devices that can train can evaluate, too."""
    for accumulate, rows in ((1, 4), (2, 2)):
        dataset = batches.held_out_batches(settings(accumulate=accumulate))
        assert dataset.element_spec["input_mask"].shape[0] == rows
