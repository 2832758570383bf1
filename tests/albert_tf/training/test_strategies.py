"""Which strategy a name stands for, and which part of the input each program reads."""

import json

import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.training import distribution
from albert_tf.training.distribution import (
    Hosts,
    can_save_iterator,
    distribute_batches,
    get_hosts,
    make_all_gather,
    make_strategy,
)
from albert_tf.training.stages import seed_from_step
from tests import devices


def batches(rows, part):
    """What part of the rows is asked for."""
    return rows, part


def cluster(*hosts, index=0):
    return json.dumps({"cluster": {"worker": hosts}, "task": {"type": "worker", "index": index}})


def test_one_device_is_the_default():
    for name in ("auto", "one"):
        strategy = make_strategy(name)
        assert strategy.num_replicas_in_sync == 1
        assert distribute_batches(strategy, batches, 12) == ((12, None), 1)
        assert can_save_iterator(strategy, None)
        assert not can_save_iterator(strategy, "grpc://localhost:1")
        assert make_all_gather(strategy)(7) == [7]


def test_mirrored_takes_all_devices():
    assert make_strategy("mirrored").num_replicas_in_sync == len(
        tf.config.list_logical_devices(devices.kind())
    )


def test_the_kind_of_device_is_that_of_the_replicas(two_replicas, monkeypatch):
    """Two CPUs are CPUs beside a GPU, too."""
    monkeypatch.setattr(distribution, "_local_kind", lambda: "GPU")
    assert distribution.device_kind(two_replicas) == "CPU"
    assert distribution.device_kind(tf.distribute.get_strategy()) == "GPU"


def test_the_replicas_of_a_host_share_its_batches(two_replicas):
    assert get_hosts(two_replicas) == Hosts(1, 0)
    assert distribute_batches(two_replicas, batches, 12) == ((12, None), 2)
    assert can_save_iterator(two_replicas, None)


def test_auto_takes_what_is_there(monkeypatch):
    names = ("one", "mirrored", "multi_worker", "tpu")
    table = {name: lambda tpu, name=name: (name, tpu) for name in names}
    monkeypatch.setattr(distribution, "STRATEGIES", table)
    assert make_strategy() == ("one", None)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0", "GPU:1"])
    assert make_strategy() == ("mirrored", None)
    monkeypatch.setenv("TF_CONFIG", cluster("a:1", "b:1"))
    assert make_strategy() == ("multi_worker", None)
    assert make_strategy(tpu="slice") == ("tpu", "slice")
    assert make_strategy("one") == ("one", None)


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"cluster": {"worker": 5}}', cluster("a:1"), cluster("a:1", "b:1", index=2)]
)
def test_several_hosts_need_a_cluster_in_tf_config(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(InputError, match="TF_CONFIG"):
        make_strategy("multi_worker")


def test_mistakes_are_named(monkeypatch):
    with pytest.raises(InputError, match="'many'"):
        make_strategy("many")
    with pytest.raises(InputError, match="tpu='slice'"):
        make_strategy("mirrored", tpu="slice")

    def unknown(tpu):
        raise OSError(f"{tpu} not known")

    monkeypatch.setattr(distribution, "STRATEGIES", {"tpu": unknown})
    with pytest.raises(InputError, match="slice not known"):
        make_strategy(tpu="slice")


def test_batches_after_a_restart_are_others():
    assert seed_from_step(5, 0) == 5
    seeds = {seed_from_step(seed, step) for seed in range(20) for step in range(0, 1000, 50)}
    assert len(seeds) == 400
    assert all(0 <= seed < 2**31 for seed in seeds)
