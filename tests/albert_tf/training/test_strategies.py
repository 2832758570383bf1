"""Which strategy a name stands for, and which part of the input each program reads."""

import json

import pytest
import tensorflow as tf

from albert_tf.training.phases import seed_of
from albert_tf.training.resume import check_same_start
from albert_tf.training.strategies import (
    Hosts,
    feed,
    hosts_of,
    keeps_iterator,
    make_strategy,
    over_hosts,
)


def batches(rows, part):
    """What part of the rows is asked for."""
    return rows, part


def cluster(hosts):
    return json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": 0}})


def test_one_device_is_the_default():
    for name in ("auto", "one"):
        strategy = make_strategy(name)
        assert strategy.num_replicas_in_sync == 1
        assert feed(strategy, batches, 12) == ((12, None), 1)
        assert keeps_iterator(strategy, None)
        assert not keeps_iterator(strategy, "grpc://localhost:1")
        assert over_hosts(strategy)(7) == [7]


def test_mirrored_takes_all_devices():
    assert make_strategy("mirrored").num_replicas_in_sync == len(tf.config.list_logical_devices("CPU")) == 4


def test_the_replicas_of_a_host_share_its_batches(two_replicas):
    assert hosts_of(two_replicas) == Hosts(1, 0)
    assert feed(two_replicas, batches, 12) == ((12, None), 2)
    assert keeps_iterator(two_replicas, None)


def test_auto_takes_what_is_there(monkeypatch):
    made = []
    names = ("one", "mirrored", "multi_worker", "tpu")
    table = {name: lambda tpu, name=name: made.append((name, tpu)) for name in names}
    monkeypatch.setattr("albert_tf.training.strategies.STRATEGIES", table)
    make_strategy()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"])
    make_strategy()
    monkeypatch.setenv("TF_CONFIG", cluster(["a:1", "b:1"]))
    make_strategy()
    make_strategy(tpu="slice")
    make_strategy("one")
    assert made == [
        ("one", None), ("mirrored", None), ("multi_worker", None), ("tpu", "slice"), ("one", None)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[1]",
        '{"cluster": 3}',
        '{"cluster": {"worker": 5}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
    ],
)
def test_a_wrong_tf_config_is_named(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=r"TF_CONFIG=.* does not describe a cluster and a task in it"):
        make_strategy()


@pytest.mark.parametrize("text", ["", cluster(["a:1"])])
def test_several_hosts_need_addresses(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=r"multi_worker.* needs the addresses of all hosts in TF_CONFIG"):
        make_strategy("multi_worker")


def test_no_tpu_is_one_line(monkeypatch):
    def unknown(tpu):
        raise OSError(f"{tpu} not known")

    monkeypatch.setattr("albert_tf.training.strategies.STRATEGIES", {"tpu": unknown})
    with pytest.raises(
        ValueError, match=r"'tpu' cannot be used here \(slice not known\): name a TPU by --tpu"
    ):
        make_strategy(tpu="slice")


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="strategy='many' is none of auto, one, mirrored, multi"):
        make_strategy("many")
    with pytest.raises(ValueError, match=r"tpu='slice' is of no use to strategy='mirrored'"):
        make_strategy("mirrored", tpu="slice")


def test_batches_after_a_restart_are_others():
    assert seed_of(5, 0) == 5
    seeds = {seed_of(seed, step) for seed in range(20) for step in range(0, 1000, 50)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_hosts_must_start_together(tmp_path):
    check_same_start([4.0, 4.0], tmp_path)
    with pytest.raises(
        ValueError, match=r"different steps, 0, 4: --output .* one folder that all of them see"
    ):
        check_same_start([0.0, 4.0], tmp_path)
