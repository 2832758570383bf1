"""`prepare --runner=DaskRunner`: Beam's runner for Dask, which fails when no worker is left."""

from __future__ import annotations

import time

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.runners.dask import dask_runner
from distributed import Client
from distributed.diagnostics.plugin import WorkerPlugin

from albert_tf.data.beam_worker import import_tasks
from albert_tf.errors import WorkFailed

_SECONDS_WITHOUT_WORKERS = 60.0  # the cluster may start other workers in this time
_SECONDS_BETWEEN_CHECKS = 2.0
_BAG_OPTIONS = {"npartitions", "partition_size"}  # options of Dask bags; the client does not take them


def _quiet_import_plugin() -> WorkerPlugin:
    """A plugin that imports the tasks' modules on each worker before its first task.

    The class is local, so that Dask sends its code: to find it by name a worker would import this module and
    Beam, which warns.
    """

    class QuietImports(WorkerPlugin):
        name = "albert_tf"

        def setup(self, worker: object) -> None:
            import_tasks()

    return QuietImports()


class DaskRunner(dask_runner.DaskRunner):
    """Beam's DaskRunner, with workers that do not log, and an error when no worker is left."""

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> _WatchedResult:
        """Connects to the cluster, or starts one on this machine, and submits the pipeline."""
        dask_options = options.view_as(dask_runner.DaskOptions)
        if dask_options.npartitions is None and dask_options.partition_size is None:
            dask_options.partition_size = 1  # Beam's default gives a worker 128 tasks at a time
        values = dask_options.get_all_options(drop_default=True, current_only=True)
        client = Client(**{name: value for name, value in values.items() if name not in _BAG_OPTIONS})
        client.register_plugin(_quiet_import_plugin())
        dask_options.address = client.scheduler_info()["address"]  # where Beam's own client connects
        dask_options.scheduler_file = None
        result = super().run_pipeline(pipeline, options)
        return _WatchedResult(result.client, result.futures, client)


class _WatchedResult(dask_runner.DaskRunnerResult):
    """A pipeline that runs on a Dask cluster. The clients are closed when it ends."""

    def __init__(self, client: Client, futures: tuple, first_client: Client) -> None:
        super().__init__(client, futures)
        self._first_client = first_client

    def wait_until_finish(self, duration: float | None = None) -> str:
        """Waits for the end of the pipeline and returns its state.

        Args:
          duration: the longest time to wait, in milliseconds. None: as long as there are workers.
        Raises:
          WorkFailed: there was no worker for a minute.
        """
        last_seen = begin = time.monotonic()
        try:
            while True:
                try:
                    return super().wait_until_finish(_SECONDS_BETWEEN_CHECKS * 1000)
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
