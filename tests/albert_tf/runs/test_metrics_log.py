"""metrics.jsonl, as a run leaves it and as others do."""

import pytest

from albert_tf.errors import InputError
from albert_tf.runs.run_directory import Best, best_by, read_metrics

LINE = b'{"step": 1, "loss": 6.5, "gradient_norm": null}\n'


def test_lines_in_their_order(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"metrics\.jsonl"):
        read_metrics(tmp_path)
    (tmp_path / "metrics.jsonl").write_bytes(LINE + b'{"step": 2, "loss": 6}\n' + LINE[:20])  # cut off
    assert read_metrics(tmp_path) == [{"step": 1, "loss": 6.5, "gradient_norm": None}, {"step": 2, "loss": 6}]


@pytest.mark.parametrize(
    "line",
    [
        *(b"5", b"{", b"\xff\xfe{", b'{"loss": 1}', b'{"step": "1"}', b'{"step": 2, "loss": "x"}'),
        *(b'{"step": true}', b'{"step": -1}', b'{"step": null}', b'{"step": 2, "loss": false}'),
        *(b'{"step": 2, "loss": NaN}', b'{"step": 2, "loss": 1e400}', b'{"step": 2, "loss": [1]}'),
    ],
)
def test_a_line_that_holds_no_figures(line, tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(LINE + line + b"\n" + LINE)
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
        read_metrics(tmp_path)


@pytest.mark.parametrize("length", range(len(LINE)))
def test_a_last_line_is_cut_off_anywhere(length, tmp_path):
    """By a kill in the middle of a write; where only its line feed is missing it is whole."""
    (tmp_path / "metrics.jsonl").write_bytes(LINE + LINE[:length])
    assert len(read_metrics(tmp_path)) == (2 if length == len(LINE) - 1 else 1)


@pytest.mark.parametrize(
    "end", [bytes(100), b"{" + bytes(9), LINE[:9] + bytes(4096), b"\xff", b"loss", b"7", b"[", b"{}"]
)
def test_an_end_that_no_kill_leaves_is_damage(end, tmp_path):
    """Such as the NULs that a filesystem leaves at a power cut."""
    (tmp_path / "metrics.jsonl").write_bytes(LINE + end)
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2"):
        read_metrics(tmp_path)


@pytest.mark.parametrize(
    ("metric", "values", "losses", "since"),
    [
        ("eval_loss", [], [0.7, 0.69995, 0.69985, 0.6998], 1),  # two evaluations together fall enough
        ("eval_loss", [], [0.7, 0.69999999, 0.69999998], 2),
        ("eval_loss", [], [0.7, 0.6998, 0.6999], 1),
        ("eval_f1", [0.5, 0.5, 0.5], [0.7, 0.69999, 0.69998], 2),
        ("eval_f1", [0.5, 0.5, 0.5], [0.7, 0.6, 0.5], 0),
        ("eval_f1", [0.5, 0.500001, 0.500002], [0.7, 0.7, 0.7], 2),
        ("eval_f1", [0.5, 0.6, 0.6], [None, None, None], 1),
        ("eval_f1", [0.5, 0.4, 0.4], [0.7, 0.5, 0.4], 2),
    ],
)
def test_a_gain_of_rounding_is_none(metric, values, losses, since):
    lines = [{"step": step, "eval_loss": loss} for step, loss in enumerate(losses)]
    for line, value in zip(lines, values, strict=False):
        line[metric] = value
    assert best_by(metric).evaluations_since(lines) == since


def test_only_the_last_stage_tells_the_best_step():
    losses = {2: 1.0, 4: 1.5, 6: 3.0, 8: 2.5, 10: 2.7, 12: 2.6}
    lines = [{"step": step, "eval_loss": loss} for step, loss in losses.items()]
    best = Best("eval_loss", is_highest=False, after=4)
    assert best.step(lines, losses) == 8
    assert best.evaluations_since(lines) == 2
    assert best._replace(after=12).step(lines, losses) is None
    assert best._replace(after=12).evaluations_since(lines) == 0
    assert best._replace(after=0).step(lines, losses) == 2
