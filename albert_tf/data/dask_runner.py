"""`prepare --runner=DaskRunner`: Beam's runner for Dask, which says when no worker is left."""

from __future__ import annotations

import time

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.runners.dask import dask_runner
from distributed import Client
from distributed.diagnostics.plugin import WorkerPlugin

from albert_tf.data.beam_worker import import_tasks
from albert_tf.errors import WorkFailed

_SECONDS_WITHOUT_WORKERS = 60.0  # in which the cluster may start others
_SECONDS_BETWEEN_LOOKS = 2.0
_OF_BAGS = {"npartitions", "partition_size"}  # the options that are not the client's


def _quiet_imports() -> WorkerPlugin:
    """What each worker does first, also one that comes later.

    The class is sent as it is, not by its name: with this module a worker would import Beam, which warns.
    """

    class QuietImports(WorkerPlugin):
        name = "albert_tf"

        def setup(self, worker: object) -> None:
            import_tasks()

    return QuietImports()


class DaskRunner(dask_runner.DaskRunner):
    """Beam's DaskRunner, with workers that are quiet and watched."""

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> _WatchedResult:
        """Connects to the cluster, or starts one on this machine, and submits the pipeline."""
        asked = options.view_as(dask_runner.DaskOptions)
        if asked.npartitions is None and asked.partition_size is None:
            asked.partition_size = 1  # Beam gives a worker 128 tasks at a time
        chosen = asked.get_all_options(drop_default=True, current_only=True)
        client = Client(**{name: value for name, value in chosen.items() if name not in _OF_BAGS})
        client.register_plugin(_quiet_imports())
        asked.address = client.scheduler_info()["address"]  # which Beam's own client goes to
        asked.scheduler_file = None
        begun = super().run_pipeline(pipeline, options)
        return _WatchedResult(begun.client, begun.futures, client)


class _WatchedResult(dask_runner.DaskRunnerResult):
    """A pipeline that runs on a Dask cluster; the clients are closed at its end."""

    def __init__(self, client: Client, futures: tuple, first_client: Client) -> None:
        super().__init__(client, futures)
        self._first_client = first_client

    def wait_until_finish(self, duration: float | None = None) -> str:
        """Waits for the end, and gives the state.

        Args:
          duration: the time it may take in milliseconds; as long as there are workers if None.
        Raises:
          WorkFailed: for some time there was no worker.
        """
        last_seen = begin = time.monotonic()
        try:
            while True:
                try:
                    return super().wait_until_finish(_SECONDS_BETWEEN_LOOKS * 1000)
                except TimeoutError:
                    now = time.monotonic()
                    if self.client.nthreads():
                        last_seen = now
                    elif now - last_seen > _SECONDS_WITHOUT_WORKERS:
                        address = self.client.scheduler.address
                        raise WorkFailed(f"the Dask cluster at {address} has no workers left") from None
                    if duration is not None and now - begin > duration / 1000:
                        raise
        finally:
            self.client.close()
            self._first_client.close()
