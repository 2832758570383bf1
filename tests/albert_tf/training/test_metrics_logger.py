"""What a run says: plain lines, a bar on a terminal, a file that a resumed run goes on with."""

import errno
import io
import json
import math
import sys
import types

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.summary.writer import event_file_writer

from albert_tf import filesystem
from albert_tf.errors import InputError
from albert_tf.models.loss_sums import LossSum
from albert_tf.training import metrics_logger
from albert_tf.training.metrics_logger import MetricsLogger, interval_metrics, loss_metrics
from albert_tf.training.train_step import Totals


def lines_of(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_plain_lines_without_a_terminal(tmp_path, monkeypatch, caplog):
    """The time left is that of the stage; JSON has no infinity."""
    now = iter([100.0, 108.0])
    clock = types.SimpleNamespace(monotonic=lambda: next(now), time=lambda: 0.0)
    monkeypatch.setattr(metrics_logger, "time", clock)
    stream, figures = io.StringIO(), {"loss": 1.0, "num_hidden_layers": 1, "something_else": math.inf}
    with caplog.at_level("INFO", "absl"), MetricsLogger(tmp_path, 2, 100, stream, until=10) as logger:
        logger.progress(4)
        logger.record(4, figures)  # 4 s an update, and 6 left
    assert stream.getvalue() == ""
    assert caplog.messages == ["step 4/100  loss 1.0000  num_hidden_layers 1  ETA 0:00:24 (step 10)"]
    assert lines_of(tmp_path) == [{"step": 4, **figures, "something_else": None}]


def test_the_bar_is_on_the_stderr_of_its_time(tmp_path, monkeypatch, caplog):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    with caplog.at_level("INFO", "absl"), MetricsLogger(tmp_path, 0, 7):
        pass
    assert " 0/7 " in terminal.getvalue()


def test_a_full_disk_is_told_with_the_file(tmp_path, monkeypatch):
    appending = filesystem.open_to_append
    monkeypatch.setattr(filesystem, "open_to_append", lambda path: appending("/dev/full"))
    with pytest.raises(OSError) as caught, MetricsLogger(tmp_path, 0, 10, io.StringIO()) as logger:
        logger.record(1, {"loss": 1.0})
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "metrics.jsonl"))


def test_a_damaged_file_is_named_and_stays(tmp_path):
    content = b'{"step": 2}\n{"loss": 1}\n{"step": 6}\n'
    (tmp_path / "metrics.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
        MetricsLogger(tmp_path, 4, 10, io.StringIO())
    assert (tmp_path / "metrics.jsonl").read_bytes() == content


def test_what_a_dead_process_wrote_after_its_checkpoint_is_written_again(tmp_path, monkeypatch):
    """In TensorBoard, too, where each step shows once."""
    # Files of one second are read by the order of their numbers as texts, 10 before 9.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))
    for first_step, loss in ((0, 1.0), (2, 0.5)):
        with MetricsLogger(tmp_path, first_step, 4, io.StringIO()) as logger:
            for step in range(first_step + 1, 5):
                logger.record(step, {"loss": loss})
        if first_step == 0:
            with (tmp_path / "metrics.jsonl").open("a") as file:
                file.write('{"step": 7, "lo')
    expected = [(1, 1.0), (2, 1.0), (3, 0.5), (4, 0.5)]
    assert [(line["step"], line["loss"]) for line in lines_of(tmp_path)] == expected
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == expected


def test_interval_is_the_mean_of_its_updates():
    totals = Totals({"mlm": LossSum(6.0, 1.0, 4.0)}, gradient_norm=2.0, failed=0, input_wait=0.5)
    updates = [(totals, 10, 1.0), (totals._replace(gradient_norm=3.0), 10, 3.0)]
    assert interval_metrics(updates, loss_metrics, seq_length=8) == {
        "loss": 1.5,
        "mlm_loss": 1.5,
        "mlm_accuracy": 0.25,
        "gradient_norm": 3.0,
        "examples_per_second": 5.0,
        "tokens_per_second": 40.0,
        "input_wait": 0.25,
    }
