"""The learning curve of a run, as a picture."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from albert_tf.checkpoints.metrics_log import METRICS, read_metrics
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import whole_file

FORMATS = (".png", ".svg", ".pdf")

# Of pre-training; those of other runs are found by their names.
PANELS = {
    "masked language model, nats": ("mlm_loss", "eval_mlm_loss"),
    "sentence objective, nats": ("sop_loss", "eval_sop_loss", "nsp_loss", "eval_nsp_loss"),
    "accuracy": (
        "mlm_accuracy",
        "eval_mlm_accuracy",
        "sop_accuracy",
        "eval_sop_accuracy",
        "nsp_accuracy",
        "eval_nsp_accuracy",
    ),
}


def metric_series(run: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """The figures of a run by name, each a list of (step, value).

    Args:
      run: the run directory.
    Raises:
      FileNotFoundError: the run has no metrics.jsonl.
      ValueError: a line of it holds something else than figures; a last line that is cut off is passed over.
    """
    series: dict[str, list[tuple[int, float]]] = {}
    for figures in read_metrics(run):
        step = figures.pop("step")
        for name, value in figures.items():
            if value is not None:
                series.setdefault(name, []).append((step, value))
    return series


def _panels(names: Iterable[str]) -> dict[str, list[str]]:
    """The metrics of a run that the picture shows, by the titles of its parts."""
    names = list(names)
    found = {title: [name for name in chosen if name in names] for title, chosen in PANELS.items()}
    if not any(found.values()):  # a fine-tuned run
        is_metric = re.compile(r"eval_(?!loss$).*(?<!total)(?<!thresh)|.*accuracy").fullmatch
        found = {
            "loss": [name for name in names if name in ("loss", "eval_loss")],
            "metrics": [name for name in names if is_metric(name)],
        }
    return {title: chosen for title, chosen in found.items() if chosen}


def draw_curve(run: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Draws the losses and metrics of a run over its steps, of training and of held-out data.

    Args:
      run: the run directory.
      output: the picture to write, whole or not at all; its ending says in which of FORMATS.
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
    panels = _panels(series)
    if not panels:
        raise InputError(f"{Path(run) / METRICS} holds no losses yet: train for some steps first")
    figure = Figure(figsize=(5 * len(panels), 3.6), layout="constrained")
    for axes, (title, names) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
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
