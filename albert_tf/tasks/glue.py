"""Reads the original files of the GLUE tasks and of the diagnostic set AX; writes files for GLUE's server."""

from __future__ import annotations

import dataclasses
import functools
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.io import PathLike, atomic_file
from albert_tf.tasks.columns import Columns, read_text_records
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.formats import DEV, TEST, TRAIN, DataFormat, OutputFormat, PredictionWriter, Records
from albert_tf.tasks.tables import Table, read_lines, read_tsv
from albert_tf.text.files import path_list

_THREE = {TRAIN: "train.tsv", DEV: "dev.tsv", TEST: "test.tsv"}


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """Names and columns of the files of a task."""

    name: str  # GLUE's name of the task and of its folder
    columns: Columns  # test files lack the column of labels
    labels: tuple[str, ...] | None  # words in the order of the logits; None for scores of regression
    files: Mapping[str, str] = dataclasses.field(default_factory=lambda: _THREE)  # of each split
    column_names: tuple[str, ...] | None = None  # names of the columns, if the files have no header
    broken_lines: bool = False  # True if cells may hold line breaks


_MNLI = TRAIN, "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"
_SINGLE = Columns("sentence", None, "label", "index")
_PAIR = Columns("sentence1", "sentence2", "label", "index")
_BINARY = ("0", "1")
_ENTAILMENT = ("entailment", "not_entailment")
_THREE_WAY = ("contradiction", "entailment", "neutral")

# Source: the files of gluebenchmark.com; the order of the labels is google-research/albert's.
GLUE: dict[str, GlueTask] = {
    "cola": GlueTask("CoLA", _SINGLE, _BINARY, column_names=("source", "label", "author's mark", "sentence")),
    "sst-2": GlueTask("SST-2", _SINGLE, _BINARY),
    "mrpc": GlueTask("MRPC", Columns("#1 String", "#2 String", "Quality", "index"), _BINARY),
    "sts-b": GlueTask("STS-B", _PAIR._replace(label="score"), None),
    "qqp": GlueTask(
        "QQP", Columns("question1", "question2", "is_duplicate", "id"), _BINARY, broken_lines=True
    ),
    "mnli": GlueTask(
        "MNLI", _PAIR._replace(label="gold_label"), _THREE_WAY, {name: f"{name}.tsv" for name in _MNLI}
    ),
    "qnli": GlueTask("QNLI", Columns("question", "sentence", "label", "index"), _ENTAILMENT),
    "rte": GlueTask("RTE", _PAIR, _ENTAILMENT),
    "wnli": GlueTask("WNLI", _PAIR, _BINARY),
    "ax": GlueTask("AX", _PAIR, _THREE_WAY, {TEST: "diagnostic.tsv"}),
}

GLUE_HEADER = "index\tprediction"  # of the server's files

# Number of rows of each of the server's files. Source: the test sets of gluebenchmark.com.
GLUE_ROWS = {
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

# In Microsoft's files of MRPC the development set is part of the training file. This file lists its pairs.
_MSR_DEV_IDS = "dev_ids.tsv"
_MSR_PAIR = ("#1 ID", "#2 ID")


def read_glue_split(task: str, folder: str | os.PathLike, split: str) -> list[TextRecord]:
    """Reads one of the sets of a task, a key of GLUE. Only test sets have no labels.

    Raises a FileNotFoundError if the file is missing, an InputError if the task has no such set.
    """
    glue = GLUE[task]
    if split not in glue.files:
        raise InputError(f"{glue.name} has no set {split!r} but {', '.join(glue.files)}")
    file = f"{os.fspath(folder)}/{glue.files[split]}"
    needs_labels = not split.startswith(TEST)
    msr_file = f"{os.fspath(folder)}/msr_paraphrase_{TEST if split == TEST else TRAIN}.txt"
    if task == "mrpc" and not tf.io.gfile.exists(file) and tf.io.gfile.exists(msr_file):
        return _to_records(glue, _read_msr_split(msr_file, split), needs_labels)
    return read_glue_file(task, file, needs_labels)


def read_glue_file(task: str, file: str | os.PathLike, needs_labels: bool) -> list[TextRecord]:
    """Reads a file of a task, whatever its name; with `needs_labels` like a training set, else a test set."""
    glue, file = GLUE[task], os.fspath(file)
    columns = glue.column_names
    if columns and not needs_labels and len(read_lines(file)[0].split("\t")) != len(columns):
        columns = None  # this test set has a header
    return _to_records(glue, read_tsv(file, columns, glue.broken_lines), needs_labels)


def _to_records(glue: GlueTask, table: Table, needs_labels: bool) -> list[TextRecord]:
    """Converts the rows of a file of the task to records."""
    columns = glue.columns
    if not needs_labels and columns.label not in table.columns:
        columns = columns._replace(label=None)
    if columns.id not in table.columns:
        columns = columns._replace(id=None)
    return read_text_records(table, columns)


def _read_msr_split(file: str, split: str) -> Table:
    """Reads the rows of a set from one of Microsoft's two files."""
    table = read_tsv(file)
    if split == TEST:
        return table
    ids_file = file.rpartition("/")[0] + f"/{_MSR_DEV_IDS}"
    if not tf.io.gfile.exists(ids_file):
        raise FileNotFoundError(f"{ids_file}: no such file: add it (it lists MRPC's dev set), or dev.tsv")
    first, second = (table.column_index(name) for name in _MSR_PAIR)
    pairs = {tuple(row.cells) for row in read_tsv(ids_file, _MSR_PAIR).rows}
    rows = [row for row in table.rows if ((row.cells[first], row.cells[second]) in pairs) == (split == DEV)]
    return Table(file, table.columns, rows)


def glue_format(name: str) -> DataFormat:
    """The format of the data of a task, a key of GLUE; predictions are files for GLUE's server."""
    dev, test = (tuple(split for split in GLUE[name].files if split.startswith(x)) for x in (DEV, TEST))

    def create_writer(source: PathLike, records: Records, output_format: OutputFormat) -> PredictionWriter:
        output_format.check_no_columns("GLUE")
        if output_format.ending not in (None, ".tsv"):
            raise InputError(
                f"{output_format.file} does not end in .tsv, the format that GLUE's server takes"
            )
        file = f"{GLUE[name].name}.tsv"
        if name == "mnli":
            file = "MNLI-mm.tsv" if "mismatched" in Path(path_list(source)[0]).name else "MNLI-m.tsv"
        return lambda predictions: {file: submission_text(records, predictions)}

    def read_file(file: PathLike, needs_labels: bool, _: Any) -> Records:
        return read_glue_file(name, file, needs_labels)

    return DataFormat(read_file, create_writer, functools.partial(read_glue_split, name), dev, test)


def submission_text(records: Sequence[TextRecord], predictions: Sequence[Any]) -> str:
    """The text of a submission file: a line for each record of the test set, with the record's index.

    Scores are clipped to 0 to 5, since the server refuses others.
    """
    lines = [GLUE_HEADER]
    for record, prediction in zip(records, predictions, strict=True):
        value = prediction.value
        label = value if isinstance(value, str) else f"{min(max(float(value), 0.0), 5.0):.3f}"
        lines.append(f"{record.id}\t{label}")
    return "\n".join(lines) + "\n"


def write_submission(path: PathLike, files: Mapping[str, str]) -> None:
    """Writes the zip file for GLUE's server, whole or not at all; it replaces an existing file.

    Raises an InputError for a file that is missing, unknown, or has a wrong number of rows.
    """
    path = Path(path)
    for name in {**GLUE_ROWS, **files}:
        rows = files.get(name, "").count("\n") - 1
        if rows != GLUE_ROWS.get(name) or not files[name].startswith(f"{GLUE_HEADER}\n"):
            remedy = f"the server wants {GLUE_ROWS.get(name, 'no such file')}: predict for whole test sets"
            raise InputError(f"{path}: {name} has {max(rows, 0)} rows below {GLUE_HEADER!r}, and {remedy}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in GLUE_ROWS:
            archive.writestr(name, files[name])
