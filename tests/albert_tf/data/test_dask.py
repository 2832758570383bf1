"""`prepare` on a Dask cluster of three processes on loopback, some of which are killed."""

import signal
import socket
import sys
from pathlib import Path

import pytest

from albert_tf.data import dask_runner
from albert_tf.data.prepare import prepare
from albert_tf.data.prepare_plan import PreparationFailed
from albert_tf.errors import InputError
from tests.albert_tf.commands import start, wait_for
from tests.albert_tf.data import dask_worker_script

SLICES = 9


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler with three workers, and their processes."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address, log = f"tcp://127.0.0.1:{port}", tmp_path / "log"
    processes = [
        start(
            ["-m", "distributed.cli.dask_scheduler", "--host=127.0.0.1", f"--port={port}", "--no-dashboard"],
            log,
        )
    ]
    try:
        wait_for("Scheduler at", log, processes)
        for name in "abc":
            processes.append(start([dask_worker_script.__file__, address, tmp_path, name], log))
        yield address, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_killed_workers(cluster, tiny_corpus, tiny_vocabulary, tmp_path, monkeypatch, capfd):
    """One of three costs nothing but its slice; without any, the same command goes on elsewhere."""
    address, workers = cluster
    texts = tiny_corpus.read_text()
    for number in range(SLICES):
        (tmp_path / f"{number}.txt").write_text(texts.replace("the", f"the {number}"))
    lines: list[str] = []

    def prepared(output: str, *flags: str) -> dict[str, bytes]:
        folder = tmp_path / output
        stats = prepare(str(tmp_path / "*.txt"), folder, tiny_vocabulary, flags, lines.append, shards=3)
        made = {path.name: path.read_bytes() for path in folder.glob("*.tfrecord")}
        return {"counts": str(stats["counts"]).encode(), **made}

    def read_by(names: str) -> list[str]:
        logs = [tmp_path / name for name in names if (tmp_path / name).exists()]
        return [Path(line).name for log in logs for line in log.read_text().splitlines()]

    expected, dask = prepared("alone"), ("--runner=DaskRunner", f"--dask_client_address={address}")
    (tmp_path / "kill-a").touch()
    assert prepared("many", *dask) == expected
    assert workers[0].wait(10) == -signal.SIGKILL
    assert sorted(read_by("abc")) == [f"run-{number:06d}" for number in range(SLICES)]  # each once
    assert min(len(read_by(name)) for name in "abc") > 0
    assert not (tmp_path / "many" / "unfinished").exists()

    (tmp_path / "kill-b").touch()
    (tmp_path / "kill-c").touch()
    monkeypatch.setattr(dask_runner, "_SECONDS_WITHOUT_WORKERS", 1)
    with pytest.raises(PreparationFailed) as failed:
        prepared("none", *dask)
    line = f"the Dask cluster at {address} has no workers left; the same command goes on from what is done"
    assert str(failed.value) == line
    assert len(read_by("bc")) >= 2
    lines.clear()
    assert prepared("none") == expected
    assert "Traceback" not in capfd.readouterr().err


def test_dask_is_not_installed(monkeypatch, tiny_corpus, tiny_vocabulary, tmp_path):
    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "albert_tf.data.dask_runner")
    with pytest.raises(InputError, match=r"--runner DaskRunner: .*`pip install albert_tf\[dask\]` brings it"):
        prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, ["--runner=DaskRunner"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        (["--runner=DaskRunner", "--dask_client_adress=x"], "--dask_client_adress=x: neither"),
        (["--runner=DaskRunner", "--dask_npartitions=two"], "dask_npartitions: invalid int value: 'two'"),
        (["--runner=no.such.Runner"], "--runner no.such.Runner: No module named 'no'"),
        (["--runner=albert_tf.data.prepare.Nothing"], "albert_tf.data.prepare.Nothing: .*no attribute"),
        (["--runner=albert_tf.errors.InputError"], "--runner albert_tf.errors.InputError: .*no runner"),
    ],
)
def test_bad_flags(flags, line, tiny_corpus, tiny_vocabulary, tmp_path):
    with pytest.raises(InputError, match=line):
        prepare(tiny_corpus, tmp_path / "out", tiny_vocabulary, flags)
    assert not (tmp_path / "out").exists()
