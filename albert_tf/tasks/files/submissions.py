"""Prediction files as GLUE's server takes them, and the zip file of all."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from albert_tf.tasks.datasets.glue import GLUE
from albert_tf.tasks.examples.predictions import LabelPrediction, ScorePrediction
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.utils.errors import InputError
from albert_tf.utils.files import whole_file

HEADER = "index\tprediction"

# Rows of each file. Source: the test sets of gluebenchmark.com.
ROWS = {
    "CoLA.tsv": 1063,
    "SST-2.tsv": 1821,
    "MRPC.tsv": 1725,
    "STS-B.tsv": 1379,
    "QQP.tsv": 390_965,
    "MNLI-m.tsv": 9796,
    "MNLI-mm.tsv": 9847,
    "QNLI.tsv": 5463,
    "RTE.tsv": 3000,
    "WNLI.tsv": 146,
    "AX.tsv": 1104,
}

# The server refuses scores of STS-B beyond those that people gave.
_LOWEST, _HIGHEST = 0.0, 5.0


def submission_name(task: str, source: str) -> str:
    """The server's name of the predictions for a set.

    Args:
      task: a key of GLUE.
      source: name of the set or of its file, which of MNLI says whether it is the mismatched one.
    """
    if task == "mnli":
        return "MNLI-mm.tsv" if "mismatched" in os.path.basename(source) else "MNLI-m.tsv"  # noqa: PTH119
    return f"{GLUE[task].name}.tsv"


def submission_text(
    records: Sequence[TextRecord], predictions: Sequence[LabelPrediction | ScorePrediction]
) -> str:
    """The lines of a file, one a record of the test set in their order, with the index that its file has."""
    lines = [HEADER]
    for record, found in zip(records, predictions, strict=True):
        if isinstance(found, ScorePrediction):
            label = f"{min(max(float(found.score), _LOWEST), _HIGHEST):.3f}"
        else:
            label = found.label
        lines.append(f"{record.id}\t{label}")
    return "\n".join(lines) + "\n"


def write_submission(path: str | os.PathLike, files: Mapping[str, str]) -> None:
    """Writes the zip file that the server takes, whole or not at all.

    Args:
      path: the zip file; an existing one is replaced.
      files: the text of each file by its name, as `submission_text` has it.
    Raises:
      InputError: a file is missing, is none of the server's, or has another number of rows than its set.
    """
    path = Path(path)
    for name in {**ROWS, **files}:
        rows = files.get(name, "").count("\n") - 1
        if rows != ROWS.get(name) or not files[name].startswith(f"{HEADER}\n"):
            raise InputError(
                f"{path}: {name} has {max(rows, 0)} rows below {HEADER!r}, and the server wants "
                f"{ROWS.get(name, 'no such file')}: predict for GLUE's whole test sets"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ROWS:
            archive.writestr(name, files[name])
