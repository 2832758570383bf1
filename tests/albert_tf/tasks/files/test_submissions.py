"""Submission files of all tasks from a tiny untrained network: what GLUE's server wants of them."""

import zipfile

import numpy as np
import pytest

from albert_tf import cli
from albert_tf.checkpoints import save
from albert_tf.finetuning.task_table import TASKS, task_entries
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

SMALL = {"hidden_size": 8, "embedding_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
PAIR = "index\tsentence1\tsentence2\n"

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


@pytest.fixture(scope="module")
def folders(shared, tmp_path_factory):
    """The folder of each task; what is not at hand of QQP and MNLI is made up."""
    found = {name: shared / "data/glue" / task.name for name, task in GLUE.items()}
    made_up = tmp_path_factory.mktemp("glue")
    for part, rows in (("matched", 9796), ("mismatched", 9847)):
        lines = "".join(f"{n}\tword {n % 99}\ta boat\n" for n in range(rows))
        (made_up / f"test_{part}.tsv").write_text(PAIR + lines)
    lines = "".join(f"{n}\tword {n % 99}\ta boat\n" for n in range(1000))  # not all: that takes a minute
    (made_up / "test.tsv").write_text("id\tquestion1\tquestion2\n" + lines)
    return {**found, "mnli": made_up, "qqp": made_up}


def test_files_of_all_tasks(folders):
    """Indices, label words and names; of scores for everything."""
    found = set()
    for name, glue in GLUE.items():
        task = TASKS[name]
        for part, records in task.read_sets(folders[name], task.sets.test).items():
            words = [glue.labels[n % len(glue.labels)] for n in range(len(records))] if glue.labels else []
            scores = [ScorePrediction(np.float32(n % 6)) for n in range(len(records))]
            predictions = [LabelPrediction(word, np.ones(2, np.float32)) for word in words] or scores
            ((file, text),) = task.files(part, records, AS_READ)(predictions).items()
            header, *lines = text.splitlines()
            indices, predicted = zip(*(line.split("\t") for line in lines), strict=True)
            rows, allowed = OFFICIAL[file]
            assert header == "index\tprediction"
            assert indices == tuple(map(str, range(rows if file != "QQP.tsv" else 1000)))
            assert set(predicted) == (allowed or {f"{n}.000" for n in range(6)})
            assert list(predicted) == words or allowed is None
            found.add(file)
    assert found == set(OFFICIAL)


@pytest.mark.slow
def test_the_command_writes_what_the_server_takes(folders, tiny_model, tiny_vocabulary, tmp_path):
    """Whole test sets, and a run each; for AX predicts that of MNLI."""
    glue = tmp_path / "glue"
    glue.mkdir()
    for name, folder in folders.items():
        (glue / GLUE[name].name).symlink_to(folder)
    (glue / "QQP").unlink()  # at hand in part only
    (glue / "QQP").mkdir()
    with (glue / "QQP/test.tsv").open("w") as file:
        file.write("id\tquestion1\tquestion2\n")
        file.writelines(f"{n}\tword {n % 99}\ta boat\n" for n in range(OFFICIAL["QQP.tsv"][0]))
    runs = []
    for name, task in TASKS.items():
        if name in GLUE and task.recipe:
            entries = task_entries(name, [], seq_length=16)
            runs.append(str(tmp_path / name))
            save(tiny_model(entries, **SMALL), runs[-1], tiny_vocabulary, task=entries, recipe={})
    path = tmp_path / "glue.zip"
    options = f"--input {glue} --submission {path} --batch_size 512".split()
    assert cli.run(["predict", "--run", *runs, *options]) == 0
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == set(OFFICIAL)
    for name, (rows, words) in OFFICIAL.items():
        header, *lines = files[name].removesuffix("\n").split("\n")
        assert header == "index\tprediction"
        indices, predicted = zip(*(line.split("\t") for line in lines), strict=True)
        assert indices == tuple(map(str, range(rows)))
        if words is None:
            assert all(0 <= float(value) <= 5 for value in predicted)
        else:
            assert set(predicted) <= words
    rte = tmp_path / "RTE.tsv"  # and one alone, as it is in the zip file
    assert cli.run(f"predict --run {tmp_path / 'rte'} --input {glue / 'RTE'} --output {rte}".split()) == 0
    assert rte.read_text() == files["RTE.tsv"]


def records_of(count):
    return [TextRecord("test.tsv", n + 2, str(n), "", None, None) for n in range(count)]


def test_the_zip_file_of_all(tmp_path):
    files = {}
    for name, rows in ROWS.items():
        assert rows == OFFICIAL[name][0]
        predictions = [LabelPrediction("1", np.ones(2, np.float32))] * rows
        files[name] = submission_text(records_of(rows), predictions)
    path = tmp_path / "glue.zip"
    path.write_text("old")
    write_submission(path, files)
    with zipfile.ZipFile(path) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == files
    assert [entry.name for entry in tmp_path.iterdir()] == ["glue.zip"]
    with pytest.raises(InputError, match=r"for all tasks at once: AX\.tsv, WNLI\.tsv missing"):
        write_submission(path, {k: v for k, v in files.items() if k not in ("AX.tsv", "WNLI.tsv")})
    with pytest.raises(InputError, match=r"sst2\.tsv is none of the server's files: CoLA\.tsv"):
        write_submission(path, {**files, "sst2.tsv": ""})
    with pytest.raises(InputError, match=r"WNLI\.tsv has 146 rows below 'id\\tprediction'"):
        write_submission(path, {**files, "WNLI.tsv": "id" + files["WNLI.tsv"].removeprefix("index")})
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == 11


def test_scores_stay_where_people_gave_some():
    predictions = [ScorePrediction(np.float32(score)) for score in (-0.2, 3.14159, 5.3)]
    assert submission_text(records_of(3), predictions) == "index\tprediction\n0\t0.000\n1\t3.142\n2\t5.000\n"


def test_the_index_is_that_of_the_file():
    records = [TextRecord("test.tsv", 2, "17", "", None, None)]
    predictions = [LabelPrediction("1", np.ones(2, np.float32))]
    assert submission_text(records, predictions) == "index\tprediction\n17\t1\n"


def test_names():
    assert submission_name("mnli", "glue/MNLI/test_mismatched.tsv") == "MNLI-mm.tsv"
    assert submission_name("mnli", "mismatched/test_matched.tsv") == "MNLI-m.tsv"
    assert {submission_name(name, "test") for name in GLUE} | {"MNLI-mm.tsv"} == set(ROWS)
