"""A Dask worker that may be told to die in the middle of its work; run by test_dask.py.

    python dask_worker_script.py SCHEDULER FOLDER NAME

It adds a line to FOLDER/NAME for each slice that it has read. Where FOLDER/kill-NAME is there, it dies while
it writes the second of them from then on: the file is there then, and has not got its name.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from distributed import Worker

from albert_tf.data import prepare_files


def deadly(original: Callable, folder: Path, name: str) -> Callable:
    """The function that writes a file under another name first, for a worker that may die then."""
    written = 0

    @contextmanager
    def atomic_output_file(path: str, unfinished: str):
        nonlocal written
        with original(path, unfinished) as temporary:
            yield temporary
            if Path(path).name.startswith("run-"):
                written += (folder / f"kill-{name}").exists()
                if written == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                with (folder / name).open("a") as log:
                    log.write(f"{path}\n")

    return atomic_output_file


async def work(scheduler: str, name: str) -> None:
    """Until somebody ends the process."""
    async with Worker(scheduler, nthreads=1, name=name, host="127.0.0.1", dashboard=False) as worker:
        await worker.finished()


if __name__ == "__main__":
    scheduler, folder, name = sys.argv[1:]
    prepare_files.atomic_output_file = deadly(prepare_files.atomic_output_file, Path(folder), name)
    asyncio.run(work(scheduler, name))
