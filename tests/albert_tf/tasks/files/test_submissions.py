"""Submission files of all tasks: what GLUE's server wants of them."""

import zipfile

import numpy as np
import pytest

from albert_tf.finetuning.task_table import TASKS
from albert_tf.tasks.datasets.glue import GLUE
from albert_tf.tasks.examples.predictions import LabelPrediction, ScorePrediction
from albert_tf.tasks.examples.records import TextRecord
from albert_tf.tasks.files.destination import AS_READ
from albert_tf.tasks.files.submissions import (
    ROWS,
    submission_name,
    submission_text,
    write_submission,
)
from albert_tf.utils.errors import InputError

# Typed from the server's page and the descriptions of the tasks: rows, index of the first and last.
OFFICIAL = {
    "CoLA.tsv": (1063, {"0", "1"}),
    "SST-2.tsv": (1821, {"0", "1"}),
    "MRPC.tsv": (1725, {"0", "1"}),
    "STS-B.tsv": (1379, None),
    "QQP.tsv": (390965, {"0", "1"}),
    "MNLI-m.tsv": (9796, {"contradiction", "entailment", "neutral"}),
    "MNLI-mm.tsv": (9847, {"contradiction", "entailment", "neutral"}),
    "QNLI.tsv": (5463, {"entailment", "not_entailment"}),
    "RTE.tsv": (3000, {"entailment", "not_entailment"}),
    "WNLI.tsv": (146, {"0", "1"}),
    "AX.tsv": (1104, {"contradiction", "entailment", "neutral"}),
}


def test_files_of_the_tasks(shared):
    """Indices, label words and names; of scores for everything."""
    for name in GLUE.keys() - {"mnli", "qqp"}:  # whose test sets are at hand
        glue, task = GLUE[name], TASKS[name]
        ((part, records),) = task.read_sets(shared / "data/glue" / glue.name, task.sets.test).items()
        words = [glue.labels[n % len(glue.labels)] for n in range(len(records))] if glue.labels else []
        scores = [ScorePrediction(np.float32(n % 6)) for n in range(len(records))]
        predictions = [LabelPrediction(word, np.ones(2, np.float32)) for word in words] or scores
        ((file, text),) = task.files(part, records, AS_READ)(predictions).items()
        header, *lines = text.splitlines()
        indices, predicted = zip(*(line.split("\t") for line in lines), strict=True)
        rows, allowed = OFFICIAL[file]
        assert header == "index\tprediction"
        assert indices == tuple(map(str, range(rows)))
        assert set(predicted) == (allowed or {f"{n}.000" for n in range(6)})
        assert list(predicted) == words or allowed is None


def test_the_zip_file_of_all(tmp_path):
    assert {name: rows for name, (rows, _) in OFFICIAL.items()} == ROWS
    files = {name: "index\tprediction\n" + "0\t1\n" * rows for name, rows in ROWS.items()}
    path = tmp_path / "glue.zip"
    path.write_text("old")
    write_submission(path, files)
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == files
    assert [entry.name for entry in tmp_path.iterdir()] == ["glue.zip"]
    for changed, value in (
        ({k: v for k, v in files.items() if k != "AX.tsv"}, r"AX\.tsv"),
        ({**files, "sst2.tsv": ""}, r"sst2\.tsv"),
        ({**files, "WNLI.tsv": files["RTE.tsv"]}, r"WNLI\.tsv has 3000 rows.* 146"),
        ({**files, "WNLI.tsv": "id" + files["WNLI.tsv"].removeprefix("index")}, r"WNLI\.tsv"),
    ):
        with pytest.raises(InputError, match=value):
            write_submission(path, changed)
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 11


def test_scores_stay_where_people_gave_some():
    records = [TextRecord("test.tsv", n + 2, str(n), "", None, None) for n in range(3)]
    predictions = [ScorePrediction(np.float32(score)) for score in (-0.2, 3.14159, 5.3)]
    assert submission_text(records, predictions) == "index\tprediction\n0\t0.000\n1\t3.142\n2\t5.000\n"


def test_names():
    assert submission_name("mnli", "glue/MNLI/test_mismatched.tsv") == "MNLI-mm.tsv"
    assert submission_name("mnli", "mismatched/test_matched.tsv") == "MNLI-m.tsv"
