"""metrics.jsonl, as a run leaves it and as others do."""

import pytest

from albert_tf.checkpoints.metrics_log import read_metrics
from albert_tf.utils.errors import InputError

LINE = b'{"step": 1, "loss": 6.5, "gradient_norm": null}\n'


def test_lines_in_their_order(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(LINE + b'{"step": 2, "loss": 6}\n' + LINE[:20])  # cut off
    assert read_metrics(tmp_path) == [
        {"step": 1, "loss": 6.5, "gradient_norm": None},
        {"step": 2, "loss": 6},
    ]


def test_no_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"metrics\.jsonl: no such file; is .* a training run"):
        read_metrics(tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        b"5", b"[1]", b"{", b"\xff\xfe{", b'{"loss": 1}', b'{"step": null}', b'{"step": -1}',
        b'{"step": "1"}', b'{"step": 1.0}', b'{"step": 2, "loss": "x"}', b'{"step": 2, "loss": true}',
        b'{"step": 2, "loss": %d}' % 10**400, b'{"step": %d}' % 10**400, b"[" * 100_000,
    ],
    ids=lambda line: line[:30].decode("latin-1"),
)  # fmt: skip
def test_a_line_that_holds_no_figures(line, tmp_path):
    for before in (b"", LINE):
        (tmp_path / "metrics.jsonl").write_bytes(before + line + b"\n" + LINE)
        number = 1 + before.count(b"\n")
        with pytest.raises(InputError, match=rf"metrics\.jsonl, line {number}: not an object of numbers"):
            read_metrics(tmp_path)
