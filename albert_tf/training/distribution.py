"""Strategies (one device, several, several hosts, a TPU), and how batches reach their replicas."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from albert_tf.constants import AUTO
from albert_tf.errors import InputError, check_choice

# Errors that TensorFlow raises on a host if another host has died or cannot be reached.
HOST_LOST_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)

# make_batches(rows, context): batches of `rows` rows. context is None if there is only one input pipeline.
MakeBatches = Callable[[int, tf.distribute.InputContext | None], tf.data.Dataset]


def _mirrored_strategy(tpu: str | None) -> tf.distribute.Strategy:
    devices = tf.config.list_logical_devices(_local_kind())
    return tf.distribute.MirroredStrategy([device.name for device in devices])


def _multi_worker_strategy(tpu: str | None) -> tf.distribute.Strategy:
    if _num_hosts() < 2:
        raise InputError(
            "strategy='multi_worker' needs the addresses of all hosts in TF_CONFIG, such as "
            '{"cluster": {"worker": ["host0:port", "host1:port"]}, "task": {"type": "worker", "index": 0}}'
        )
    return tf.distribute.MultiWorkerMirroredStrategy()


def _tpu_strategy(tpu: str | None) -> tf.distribute.Strategy:
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu or "local")
    tf.config.experimental_connect_to_cluster(resolver)
    tf.tpu.experimental.initialize_tpu_system(resolver)
    return tf.distribute.TPUStrategy(resolver)


STRATEGIES: dict[str, Callable[[str | None], tf.distribute.Strategy]] = {
    "one": lambda tpu: tf.distribute.get_strategy(),  # the first GPU, or else the CPU
    "mirrored": _mirrored_strategy,
    "multi_worker": _multi_worker_strategy,
    "tpu": _tpu_strategy,
}


def make_strategy(
    name: str = AUTO, tpu: str | None = None, report: Callable[[str], None] = lambda line: None
) -> tf.distribute.Strategy:
    """Creates a strategy by its name. For several hosts, call it before any other TensorFlow operation.

    Args:
      name: "one": the first GPU, or the CPU; "mirrored": all GPUs of this host; "multi_worker": all GPUs of
        the hosts that the environment variable TF_CONFIG names; "tpu"; "auto": tpu if one is named,
        multi_worker if TF_CONFIG names several hosts, mirrored if there are several GPUs, else one.
      tpu: name or gRPC address of a TPU; "local" on the TPU's own host.
      report: called with a log line before the wait for the other hosts.
    Returns:
      A `tf.distribute.Strategy`.
    Raises:
      InputError: the strategy is unknown, TF_CONFIG does not describe a cluster, or the TPU cannot be used.
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
    except (tf.errors.OpError, OSError) as error:  # OSError: the search for a TPU of this name
        reason = str(getattr(error, "message", error)).partition(":")[0]
        raise InputError(f"strategy={name!r}, tpu={tpu!r} cannot be used here: {reason}") from error


def device_kind(strategy: tf.distribute.Strategy) -> str:
    """Returns the kind of device of a strategy's replicas: "CPU", "GPU" or "TPU"."""
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return "TPU"
    if strategy.num_replicas_in_sync > 1:  # in tests these are CPUs beside a GPU
        return tf.DeviceSpec.from_string(strategy.extended.worker_devices[0]).device_type
    return _local_kind()


def uses_xla(xla: bool | None) -> bool:
    """True if XLA compiles the network: the setting `xla` or, if that is None, True on GPUs only.

    On GPUs most of the time would go into launching more than a thousand small kernels in a step. TensorFlow
    compiles the programs of a TPU in any case.
    """
    return device_kind(tf.distribute.get_strategy()) == "GPU" if xla is None else xla


def _local_kind() -> str:
    """Returns "GPU" if this host has one, else "CPU"."""
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


class Hosts(NamedTuple):
    """The hosts that a strategy trains on. Each runs this program with its own input pipeline."""

    num_hosts: int
    host_index: int  # of this host, from 0

    @property
    def is_chief(self) -> bool:
        """True if this host writes the run directory."""
        return self.host_index == 0


def get_hosts(strategy: tf.distribute.Strategy) -> Hosts:
    """Returns the hosts of a strategy. A TPU counts as one host, since one program controls it."""
    is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return _hosts_of_cluster(strategy.cluster_resolver) if is_multi_worker else Hosts(1, 0)


def _hosts_of_cluster(resolver: tf.distribute.cluster_resolver.ClusterResolver) -> Hosts:
    cluster = resolver.cluster_spec().as_dict()
    chiefs = len(cluster.get("chief", []))
    first = chiefs if resolver.task_type == "worker" else 0
    return Hosts(chiefs + len(cluster.get("worker", [])), first + (resolver.task_id or 0))


def _num_hosts() -> int:
    """Number of hosts in TF_CONFIG."""
    try:
        hosts = _hosts_of_cluster(tf.distribute.cluster_resolver.TFConfigClusterResolver())
        if hosts.host_index >= hosts.num_hosts > 1:
            raise ValueError(f"no host has the index {hosts.host_index}")
        return hosts.num_hosts
    except (ValueError, AttributeError, TypeError, LookupError) as error:
        raise InputError(
            f"TF_CONFIG={os.environ['TF_CONFIG']!r} names no cluster and a task: {error}"
        ) from error


class DistributedBatches(NamedTuple):
    """Batches on their way to the replicas."""

    dataset: tf.data.Dataset  # or a distributed dataset
    replicas_per_batch: int | None  # number of replicas that divide a batch; None: all


def distribute_batches(
    strategy: tf.distribute.Strategy, make_batches: MakeBatches, rows: int
) -> DistributedBatches:
    """The batches of this host, its share of global batches of `rows` rows.

    The replicas of a host divide its batches. So several devices read from one plain iterator, which a
    checkpoint can hold. The batches of a TPU must wait on the device. Only an iterator of the strategy puts
    them there.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return distribute_from_function(strategy, make_batches, rows)
    replicas, (count, number) = strategy.num_replicas_in_sync, get_hosts(strategy)
    context = tf.distribute.InputContext(count, number, replicas) if count > 1 else None
    return DistributedBatches(make_batches(rows // count, context), replicas // count)


def distribute_from_function(
    strategy: tf.distribute.Strategy, make_batches: MakeBatches, rows: int
) -> DistributedBatches:
    """Separate batches for each replica, its share of global batches of `rows` rows."""

    def make_replica_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        return make_batches(context.get_per_replica_batch_size(rows), context)

    return DistributedBatches(strategy.distribute_datasets_from_function(make_replica_batches), 1)


def can_save_iterator(strategy: tf.distribute.Strategy, data_service: str | None) -> bool:
    """True if checkpoints hold the input's iterator, so that a resumed run continues with the next batch.

    Iterators of a TPU strategy or of a tf.data service cannot be saved, and other hosts' iterators are out of
    reach. A run then resumes with new batches, drawn with a seed that depends on the step.
    """
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
    return get_hosts(strategy).num_hosts == 1 and not is_tpu and data_service is None


def run_on_replicas(strategy: tf.distribute.Strategy, function: Callable[..., Any], *arguments: Any) -> Any:
    """Runs a function on all replicas, and returns the result of the first one. All results are the same."""
    results = strategy.run(function, arguments)
    return tf.nest.map_structure(lambda part: strategy.experimental_local_results(part)[0], results)


def make_all_gather(strategy: tf.distribute.Strategy) -> Callable[[float], list[float]]:
    """Creates a function that collects a number from all hosts: a list with one entry for each replica.

    With one host it is a list of one. Every host has to call the function.
    """
    if get_hosts(strategy).num_hosts == 1:
        return lambda number: [number]

    def gather_replicas(value: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_replica_context().all_gather(value[tf.newaxis], axis=0)

    @tf.function(autograph=False)
    def all_gather(value: tf.Tensor) -> tf.Tensor:
        return run_on_replicas(strategy, gather_replicas, value)  # [replicas]

    return lambda number: all_gather(tf.constant(number, tf.float32)).numpy().tolist()
