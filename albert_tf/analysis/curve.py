"""Learning curves of a run, as tables and as a picture."""

from __future__ import annotations

import os
import re
from pathlib import Path

from albert_tf.errors import InputError
from albert_tf.filesystem import exists
from albert_tf.io import atomic_file, check_output_path
from albert_tf.report import LINES, ReportTable
from albert_tf.runs.run_directory import (
    BEST_KEY,
    CHOSEN_THRESHOLD_KEY,
    METRICS_FILE,
    TASK_FILE,
    RunDirectory,
    read_metrics,
)

PICTURE_FORMATS = (".png", ".svg", ".pdf")

# Panels of the picture, and the metrics that each shows.
PANELS = {
    "masked language model, nats": re.compile("(eval_)?mlm_loss"),
    "sentence objective, nats": re.compile("(eval_)?(sop|nsp)_loss"),
    "loss": re.compile("(eval_)?loss"),
    "metrics": re.compile(
        r"\w*(accuracy|f1|exact|exact_match|pearson|spearman|matthews_correlation|auc|ece|rmse|mae|r2)"
        "(_matched|_mismatched)?"
    ),
}


def metric_series(run: str | os.PathLike[str]) -> dict[str, list[tuple[int, float]]]:
    """Reads the metrics of a run.

    Args:
      run: run directory.
    Returns:
      A list of (step, value) for each metric, by name.
    Raises:
      FileNotFoundError: the run has no metrics.
      InputError: a line of the metrics is damaged.
    """
    series: dict[str, list[tuple[int, float]]] = {}
    for line in read_metrics(run):
        for name, value in line.items():
            if value is not None:
                series.setdefault(name, []).append((line["step"], value))
    return series


def curve_tables(run: str | os.PathLike[str]) -> list[ReportTable]:
    """Tables of a run's losses and metrics over the steps, one for each panel that has any."""
    series, tables, directory = metric_series(run), [], RunDirectory(run)
    is_finetuned = exists(directory.file(TASK_FILE)) and BEST_KEY in directory.task
    best = directory.default_step() if is_finetuned else None
    for title, pattern in PANELS.items():
        rows = []
        for name in filter(pattern.fullmatch, series):
            suffix = " (held out)" if name.startswith("eval_") else ""
            # In an evaluation, training's `label_accuracy` is called `accuracy`.
            label = name.removeprefix("eval_").replace("label_accuracy", "accuracy") + suffix
            rows += [(label, *point) for point in series[name]]
        if rows:
            name = "_".join(["learning_curve", *re.findall(r"\w+", title)])
            has_own_threshold = title == "metrics" and CHOSEN_THRESHOLD_KEY in directory.recipe
            heading = f"{title} at a threshold of 0.5" if has_own_threshold else title
            mark = None if best is None else (f"chosen: step {best}", best)
            tables.append(ReportTable(name, heading, ("name", "steps", title), rows, LINES, mark=mark))
    return tables


def draw_curve(run: str | os.PathLike[str], output: str | os.PathLike[str]) -> None:
    """Draws the losses and metrics of a run over its steps, for training and held-out data.

    Args:
      run: run directory.
      output: picture to write: .png, .svg or .pdf. An error leaves no partial file.
    Raises:
      FileNotFoundError: the run has no metrics.
      IsADirectoryError: `output` is a folder.
      InputError: the extension is unknown, or a line of the metrics is damaged.
    """
    path = Path(output)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it, such as {path / 'curve.png'}")
    check_output_path(path, is_folder=False)
    if path.suffix.lower() not in PICTURE_FORMATS:
        endings = ", ".join(PICTURE_FORMATS)
        raise InputError(f"{path} does not say the picture's format: let it end in {endings}")
    tables = curve_tables(run)
    if not tables:
        raise InputError(f"{Path(run) / METRICS_FILE} holds no losses yet: train for some steps first")
    from albert_tf.report_folder import draw_tables

    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary:
        temporary.write_bytes(draw_tables(tables, path.suffix[1:].lower()))
