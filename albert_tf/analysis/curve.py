"""The learning curve of a run, as a picture."""

from __future__ import annotations

import json
import os
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

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


def read_metrics(run: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """The figures of a run by name, each a list of (step, value).

    Args:
      run: the run directory.
    Raises:
      FileNotFoundError: the run has no metrics.jsonl.
    """
    path = Path(run) / "metrics.jsonl"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; is {run} the directory of a training run?")
    series: dict[str, list[tuple[int, float]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            figures = json.loads(line)
        except ValueError:
            break  # the process was killed while it wrote this one
        step = figures.pop("step")
        for name, value in figures.items():
            series.setdefault(name, []).append((step, value))
    return series


def draw_curve(run: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Draws the losses and accuracies of a run over its steps, training and held-out data.

    Args:
      run: the run directory.
      output: the picture to write; its ending says in which format (.png, .svg, .pdf).
    Raises:
      FileNotFoundError: the run has no figures.
      ValueError: the ending names no format.
    """
    series = read_metrics(run)
    panels = {title: [name for name in names if name in series] for title, names in PANELS.items()}
    panels = {title: names for title, names in panels.items() if names}
    if not panels:
        raise ValueError(f"{Path(run) / 'metrics.jsonl'} holds no losses yet: train for some steps first")
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
    path = Path(output)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "albert_tf"}):
        figure.savefig(path, dpi=120)
