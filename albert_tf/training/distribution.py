"""Strategies: one device, several, several hosts, or a TPU; and the way of batches to the replicas."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from albert_tf.constants import AUTO
from albert_tf.errors import InputError, check_choice

# What TensorFlow raises on a host when another one has died or cannot be reached.
HOST_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)

# Batches of so many rows, for one of several input pipelines or for the only one.
MakeBatches = Callable[[int, tf.distribute.InputContext | None], tf.data.Dataset]


def _mirrored(tpu: str | None) -> tf.distribute.Strategy:
    devices = tf.config.list_logical_devices(_local_kind())
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _multi_worker(tpu: str | None) -> tf.distribute.Strategy:
    if _num_hosts() < 2:
        raise InputError(
            "strategy='multi_worker' needs the addresses of all hosts in TF_CONFIG, such as "
            '{"cluster": {"worker": ["host0:port", "host1:port"]}, "task": {"type": "worker", "index": 0}}'
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu(tpu: str | None) -> tf.distribute.Strategy:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu or "local")
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


STRATEGIES: dict[str, Callable[[str | None], tf.distribute.Strategy]] = {
    "one": lambda tpu: tf.distribute.get_strategy(),  # the first GPU, or else the CPU
    "mirrored": _mirrored,
    "multi_worker": _multi_worker,
    "tpu": _tpu,
}


def make_strategy(
    name: str = AUTO, tpu: str | None = None, report: Callable[[str], None] = lambda line: None
) -> tf.distribute.Strategy:
    """The strategy of a name; TensorFlow wants that of several hosts made before anything else.

    Args:
      name: "one": the first GPU, or the CPU; "mirrored": all GPUs of this host; "multi_worker": all GPUs of
        the hosts that the environment variable TF_CONFIG names; "tpu"; "auto": tpu if one is named,
        multi_worker if TF_CONFIG names several hosts, mirrored if there are several GPUs, else one.
      tpu: name or gRPC address of a TPU; "local" on the TPU's own host.
      report: called with a line when the other hosts are waited for.
    Raises:
      ValueError: the strategy is unknown, TF_CONFIG does not describe a cluster, or the TPU cannot be used.
    """
    if name == AUTO:
        several_gpus = len(tf.config.list_physical_devices("GPU")) > 1
        name = "tpu" if tpu else "multi_worker" if _num_hosts() > 1 else "mirrored" if several_gpus else "one"
    check_choice("strategy", name, STRATEGIES)
    if tpu and name != "tpu":
        raise InputError(f"tpu={tpu!r} is of no use to strategy={name!r}: leave one of them out")
    if name == "multi_worker":
        report(f"waiting for all hosts of TF_CONFIG={os.environ.get('TF_CONFIG')}")
    try:
        return STRATEGIES[name](tpu)
    except (tf.errors.OpError, OSError) as error:  # the second from a search for a TPU of this name
        reason = str(getattr(error, "message", error)).partition(":")[0]
        raise InputError(f"strategy={name!r}, tpu={tpu!r} cannot be used here: {reason}") from error


def device_kind(strategy: tf.distribute.Strategy) -> str:
    """The kind of device of a strategy's replicas: "CPU", "GPU" or "TPU"."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "TPU"
    if strategy.num_replicas_in_sync > 1:  # of devices that it names: a test's are CPUs beside a GPU
        return tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type
    return _local_kind()


def compiles(xla: bool | None) -> bool:
    """True if XLA compiles what a replica computes: as asked, or where nobody says, on GPUs.

    There most of the time would go into launching more than a thousand small kernels an update. A TPU's
    programs are compiled in any case.
    """
    return device_kind(tf.distribute.get_strategy()) == "GPU" if xla is None else xla


def _local_kind() -> str:
    """The kind of device of this host: "GPU" if it has any, else "CPU"."""
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


class Hosts(NamedTuple):
    """The hosts of a strategy whose programs run side by side, each with an input pipeline of its own."""

    num_hosts: int
    number: int  # of this one

    @property
    def is_chief(self) -> bool:
        """True if this host writes the run directory."""
        return self.number == 0


def hosts_of(strategy: tf.distribute.Strategy) -> Hosts:
    """The hosts of a strategy; a TPU's are all led by one program."""
    is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return _hosts(strategy.cluster_resolver) if is_multi_worker else Hosts(1, 0)


def _hosts(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> Hosts:
    cluster = resolver.cluster_spec().as_dict()
    chiefs = len(cluster.get("chief", []))
    before = chiefs if resolver.task_type == "worker" else 0
    return Hosts(chiefs + len(cluster.get("worker", [])), (resolver.task_id or 0) + before)


def _num_hosts() -> int:
    """Number of hosts in TF_CONFIG."""
    try:
        hosts = _hosts(tf.distribute.cluster_resolver.TFConfigClusterResolver())
        if hosts.number >= hosts.num_hosts > 1:
            raise ValueError(f"no host has the index {hosts.number}")
        return hosts.num_hosts
    except (ValueError, AttributeError, TypeError, LookupError) as error:
        raise InputError(
            f"TF_CONFIG={os.environ['TF_CONFIG']!r} names no cluster and a task: {error}"
        ) from error


class DistributedBatches(NamedTuple):
    """Batches on their way to the replicas."""

    dataset: tf.data.Dataset  # or one of a strategy
    replicas_per_batch: int | None  # that divide a batch among themselves; None: all


def distribute_batches(
    strategy: tf.distribute.Strategy, batches: MakeBatches, rows: int
) -> DistributedBatches:
    """The part of the global batches, of so many rows, that this program reads.

    A host's replicas divide its batches among themselves: so a plain iterator, which a checkpoint can hold,
    serves several devices. A TPU's batches must wait on the device, where only an iterator of the strategy
    puts them.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return distribute_from_function(strategy, batches, rows)
    replicas, (count, number) = strategy.num_replicas_in_sync, hosts_of(strategy)
    part = tf.distribute.InputContext(count, number, replicas) if count > 1 else None
    return DistributedBatches(batches(rows // count, part), replicas // count)


def distribute_from_function(
    strategy: tf.distribute.Strategy, batches: MakeBatches, rows: int
) -> DistributedBatches:
    """A feed that gives every replica batches of its own."""

    def of_a_replica(part: tf.distribute.InputContext) -> tf.data.Dataset:
        return batches(part.get_per_replica_batch_size(rows), part)

    return DistributedBatches(strategy.distribute_datasets_from_function(of_a_replica), 1)


def keeps_iterator(strategy: tf.distribute.Strategy, data_service: str | None) -> bool:
    """True if a checkpoint holds the input's iterator, so that a resumed run sees the very next batch.

    The iterators of a strategy and of a tf.data service cannot be saved, and those of other hosts are not
    here. Training then resumes with batches that are drawn anew, from a seed of its step.
    """
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    return hosts_of(strategy).num_hosts == 1 and not is_tpu and data_service is None


def over_hosts(strategy: tf.distribute.Strategy) -> Callable[[float], list[float]]:
    """An all-gather of a number: from each replica its host's. Every host has to call the function.

    With one host it runs nothing on a device.
    """
    if hosts_of(strategy).num_hosts == 1:
        return lambda number: [number]

    def gathered(value: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_gather(value[tf.newaxis], axis=0)

    @tf.function(autograph=False)
    def everywhere(value: tf.Tensor) -> tf.Tensor:
        return strategy.experimental_local_results(strategy.run(gathered, (value,)))[0]  # [replicas]

    return lambda number: everywhere(tf.constant(number, tf.float32)).numpy().tolist()
