"""What a run says: plain lines, a bar on a terminal, a file that a resumed run goes on with."""

import io
import json
import math
import re
import types

import pytest
from absl import logging
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from albert_tf.models.losses import Term
from albert_tf.training import logbook as logbook_module
from albert_tf.training.logbook import Interval, Logbook
from albert_tf.training.updates import Totals


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_plain_lines_without_a_terminal(tmp_path, caplog):
    stream = io.StringIO()
    with Logbook(tmp_path, 0, 10, stream) as logbook, caplog.at_level("INFO", "absl"):
        logbook.progress(5)
        logbook.record(5, {"loss": 1.25, "learning_rate": 0.5, "something_else": 3.0})
    assert stream.getvalue() == ""
    (line,) = caplog.messages
    assert re.fullmatch(r"step 5/10  loss 1\.2500  learning_rate 5\.00e-01  ETA \d:\d\d:\d\d", line)
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {
        "step": 5,
        "loss": 1.25,
        "learning_rate": 0.5,
        "something_else": 3.0,
    }
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_the_time_left_is_that_of_the_stage(tmp_path, monkeypatch, caplog):
    now = iter([100.0, 108.0])
    monkeypatch.setattr(
        logbook_module, "time", types.SimpleNamespace(monotonic=lambda: next(now), time=lambda: 0.0)
    )
    stage = Logbook(tmp_path, 2, 100, io.StringIO(), until=10)
    with stage as logbook, caplog.at_level("INFO", "absl"):
        logbook.record(
            4, {"loss": 1.0, "num_hidden_layers": 1, "seq_length": 64}
        )  # 4 s an update, and 6 left
    assert caplog.messages == [
        "step 4/100  loss 1.0000  num_hidden_layers 1  seq_length 64  ETA 0:00:24 (step 10)"
    ]


def test_a_bar_on_a_terminal_makes_way_for_a_line(tmp_path, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(logging, "info", lambda line: stream.write(f"<{line}>"))
    with Logbook(tmp_path, 2, 10, stream) as logbook:
        logbook.progress(10)
        logbook.record(10, {"loss": 1.0})
    before, _, after = stream.getvalue().partition("<step 10/10  loss 1.0000")
    assert re.search(r"2/10.*\r *\r$", before)
    assert "10/10" in after


@pytest.mark.parametrize("line", [b"5", b'{"loss": 1}', b'{"step": 4, "eval_loss": "3.1"}'])
def test_a_damaged_line_is_named(tmp_path, line):
    content = b'{"step": 2}\n' + line + b'\n{"step": 6}\n'
    (tmp_path / "metrics.jsonl").write_bytes(content)
    with pytest.raises(
        ValueError, match=r"metrics\.jsonl, line 2: not an object of numbers with a step, .*: mend"
    ):
        Logbook(tmp_path, 4, 10, io.StringIO())
    assert (tmp_path / "metrics.jsonl").read_bytes() == content


def test_json_has_no_infinity(tmp_path):
    with Logbook(tmp_path, 0, 10, io.StringIO()) as logbook:
        logbook.record(1, {"loss": 0.5, "gradient_norm": math.inf})
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {
        "step": 1, "loss": 0.5, "gradient_norm": None
    }  # fmt: skip


def test_lines_behind_the_checkpoint_are_written_again(tmp_path):
    lines = [{"step": 2, "loss": 3.0}, {"step": 4, "loss": 2.0}, {"step": 6, "loss": 1.0}]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(text + '{"step": 7, "lo')
    with Logbook(tmp_path, 4, 10, io.StringIO()) as logbook:
        logbook.record(6, {"loss": 0.5})
    kept = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert kept == [*lines[:2], {"step": 6, "loss": 0.5}]


def test_tensorboard_shows_each_step_of_a_resumed_run_once(tmp_path):
    """Those that the process before wrote after its last checkpoint are made again, and may differ."""
    for first_step, loss in ((0, 1.0), (2, 0.5)):
        with Logbook(tmp_path, first_step, 4, io.StringIO()) as logbook:
            for step in range(first_step + 1, 5):
                logbook.record(step, {"loss": loss})
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    found = [(event.step, event.value) for event in events.Scalars("loss")]
    assert found == [(1, 1.0), (2, 1.0), (3, 0.5), (4, 0.5)]


def test_interval_is_the_mean_of_its_updates():
    interval = Interval()
    totals = Totals({"mlm": Term(6.0, 1.0, 4.0)}, gradient_norm=2.0, failed=0, input_wait=0.5)
    interval.add(totals, examples=10, seconds=1.0)
    interval.add(totals._replace(gradient_norm=3.0), examples=10, seconds=3.0)
    assert interval.figures(seq_length=8) == {
        "loss": 1.5,
        "mlm_loss": 1.5,
        "mlm_accuracy": 0.25,
        "gradient_norm": 3.0,
        "examples_per_second": 5.0,
        "tokens_per_second": 40.0,
        "input_wait": 0.25,
    }
