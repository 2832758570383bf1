"""The learning curve of a run, as a picture."""

from __future__ import annotations

import os
import re
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from albert_tf.checkpoints.metrics_log import METRICS, read_metrics
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import whole_file

FORMATS = (".png", ".svg", ".pdf")

# Parts of the picture, and the names of metrics in them.
PANELS = {
    "masked language model, nats": re.compile("(eval_)?mlm_loss"),
    "sentence objective, nats": re.compile("(eval_)?(sop|nsp)_loss"),
    "loss": re.compile("(eval_)?loss"),
    "metrics": re.compile(
        r"\w*(accuracy|f1|exact|exact_match|pearson|spearman|matthews_correlation)(_matched|_mismatched)?"
    ),
}


def metric_series(run: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """The figures of a run by name, each a list of (step, value); raises as `read_metrics`."""
    series: dict[str, list[tuple[int, float]]] = {}
    for line in read_metrics(run):
        for name, value in line.items():
            if value is not None:
                series.setdefault(name, []).append((line["step"], value))
    return series


def draw_curve(run: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Draws the losses and metrics of a run over its steps, of training and of held-out data.

    The picture is written whole or not at all; its ending says in which of FORMATS.

    Raises:
      FileNotFoundError: the run has no figures.
      IsADirectoryError: output is a folder.
      ValueError: the ending names no format, or a line of the figures is damaged.
    """
    path = Path(output)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it, such as {path / 'curve.png'}")
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} does not say the picture's format: let it end in {', '.join(FORMATS)}")
    series = metric_series(run)
    found = {title: list(filter(pattern.fullmatch, series)) for title, pattern in PANELS.items()}
    panels = [(title, names) for title, names in found.items() if names]
    if not panels:
        raise InputError(f"{Path(run) / METRICS} holds no losses yet: train for some steps first")
    figure = Figure(figsize=(5 * len(panels), 3.6), layout="constrained")
    for place, (title, names) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        for name in names:
            steps, values = zip(*series[name], strict=True)
            held_out = name.startswith("eval_")
            label = name.removeprefix("eval_") + (" (held out)" if held_out else "")
            axes.plot(steps, values, label=label, marker="o" if held_out else None, markersize=4)
        axes.set(title=title, xlabel="updates")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary, matplotlib.rc_context({"svg.hashsalt": "albert_tf"}):
        figure.savefig(temporary, dpi=120, format=path.suffix[1:].lower())
