"""The figures are those of ../shared/data's README and of awk over the files."""

import shutil
import zipfile
from collections import Counter

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.task_table import TASK_SPECS
from albert_tf.tasks.examples import TextRecord
from albert_tf.tasks.formats import SAME_AS_INPUT
from albert_tf.tasks.glue import GLUE, GLUE_ROWS, read_glue_split, submission_text, write_submission
from albert_tf.tasks.task import Prediction

LABELS = {
    ("cola", "train"): {"0": 2528, "1": 6023},
    ("cola", "test"): {None: 1063},
    ("sst-2", "train"): {"0": 29780, "1": 37569},
    ("sst-2", "test"): {None: 1821},
    ("mrpc", "train"): {"0": 1194, "1": 2473},
    ("mrpc", "dev"): {"0": 129, "1": 279},
    ("sts-b", "test"): {None: 1379},
    ("qqp", "train"): {"0": 5747, "1": 3252},
    ("mnli", "train"): {"contradiction": 2958, "entailment": 3061, "neutral": 2980},
    ("mnli", "dev_matched"): {"contradiction": 320, "entailment": 347, "neutral": 333},
    ("qnli", "dev"): {"entailment": 2702, "not_entailment": 2761},
    ("qnli", "test"): {None: 5463},
    ("rte", "dev"): {"entailment": 146, "not_entailment": 131},
    ("wnli", "dev"): {"0": 40, "1": 31},
    ("ax", "test"): {None: 1104},
}

# The number of the column, from 0, of text, second text and label; None where there is none.
_PAIR = (1, 2, 3)
PLACES = {
    "cola": (3, None, 1),
    "cola test": (1, None, None),
    "sst-2": (0, None, 1),
    "sst-2 test": (1, None, None),
    "mrpc": (3, 4, 0),
    "sts-b": (7, 8, 9),
    "qqp": (3, 4, 5),
    "mnli train": (8, 9, 11),
    "mnli dev_matched": (8, 9, 15),
    "qnli": _PAIR,
    "rte": _PAIR,
    "wnli": _PAIR,
    "ax": _PAIR,
}


@pytest.fixture(scope="module")
def glue(shared):
    return shared / "data/glue"


@pytest.mark.parametrize(("task", "split"), LABELS)
def test_every_file(glue, task, split):
    folder = glue / GLUE[task].name
    records = read_glue_split(task, folder, split)
    assert Counter(record.label for record in records) == LABELS[task, split]
    *texts, label = PLACES.get(f"{task} {split}") or PLACES[task]
    places = [*texts, None if split == "test" else label]
    lines = (folder / GLUE[task].files[split]).read_bytes().split(b"\n")
    for number in (0, 57, len(records) - 1):
        line = number + 1 if task == "cola" and split != "test" else number + 2
        cells = lines[line - 1].decode().split("\t")
        expected = [None if place is None else cells[place] for place in places]
        assert records[number][1:] == (line, str(number), *expected)


def test_scores(glue):
    records = read_glue_split("sts-b", glue / "STS-B", "dev")
    assert sum(float(record.label) for record in records) == pytest.approx(3545.861, abs=1e-3)


def test_mrpc_as_microsoft_gives_it_out(glue, tmp_path):
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        shutil.copy(glue / "MRPC" / name, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"dev_ids\.tsv"):
        read_glue_split("mrpc", tmp_path, "dev")
    shutil.copy(glue / "MRPC/dev_ids.tsv", tmp_path)
    parts = {split: read_glue_split("mrpc", tmp_path, split) for split in ("train", "dev", "test")}
    assert {split: len(records) for split, records in parts.items()} == {
        "train": 3668,  # one of which GLUE's file lacks here
        "dev": 408,
        "test": 1725,
    }
    dev = read_glue_split("mrpc", glue / "MRPC", "dev")
    assert Counter(record[3:6] for record in parts["dev"]) == Counter(record[3:6] for record in dev)


def test_a_line_break_in_a_question_of_qqp(tmp_path):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
    broken = '7\t13\t14\t"Was he\n"\twas he real?\t0\n'
    (tmp_path / "train.tsv").write_text(f"{header}6\t1\t2\ta\tb\t1\n{broken}8\t3\t4\tc\td\t1\n")
    records = read_glue_split("qqp", tmp_path, "train")
    assert [record[1:] for record in records] == [
        (2, "6", "a", "b", "1"),
        (3, "7", '"Was he "', "was he real?", "0"),
        (5, "8", "c", "d", "1"),
    ]


def test_sets_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"dev_matched\.tsv"):
        read_glue_split("mnli", tmp_path, "dev_matched")
    with pytest.raises(InputError, match=r"'dev'.*dev_matched"):
        read_glue_split("mnli", tmp_path, "dev")


@pytest.mark.parametrize(
    ("task", "content", "value"),
    [
        ("sst-2", "index\tsentence\n0\tfine\n", "'label'.*'index', 'sentence'"),
        ("mnli", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tneutral\n", "'gold_label'"),
        ("cola", "sentence\tlabel\nfine\t1\n", "train.tsv:1"),
    ],
)
def test_bad_files(tmp_path, task, content, value):
    (tmp_path / "train.tsv").write_text(content)
    with pytest.raises(InputError, match=value):
        read_glue_split(task, tmp_path, "train")


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


def test_submissions_of_the_tasks(glue):
    """Indices, label words and names; of scores for everything."""
    for name in GLUE.keys() - {"mnli", "qqp"}:  # whose test sets are at hand
        spec, labels = TASK_SPECS[name], GLUE[name].labels
        ((part, records),) = spec.format.read_splits(glue / GLUE[name].name, spec.format.test).items()
        values = [labels[n % len(labels)] if labels else np.float32(n % 6) for n in range(len(records))]
        predictions = [Prediction(value, None) for value in values]
        ((file, text),) = spec.format.create_writer(part, records, SAME_AS_INPUT)(predictions).items()
        header, *lines = text.splitlines()
        indices, predicted = zip(*(line.split("\t") for line in lines), strict=True)
        rows, allowed = OFFICIAL[file]
        assert header == "index\tprediction"
        assert indices == tuple(map(str, range(rows)))
        assert set(predicted) == (allowed or {f"{n}.000" for n in range(6)})
        assert list(predicted) == values or allowed is None


def test_the_zip_file_of_all(tmp_path):
    assert {name: rows for name, (rows, _) in OFFICIAL.items()} == GLUE_ROWS
    files = {name: "index\tprediction\n" + "0\t1\n" * rows for name, rows in GLUE_ROWS.items()}
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
    predictions = [Prediction(np.float32(score), None) for score in (-0.2, 3.14159, 5.3)]
    assert submission_text(records, predictions) == "index\tprediction\n0\t0.000\n1\t3.142\n2\t5.000\n"


def test_names():
    files = TASK_SPECS["mnli"].format.create_writer
    for source, name in (("MNLI/test_mismatched", "MNLI-mm.tsv"), ("mismatched/test_matched", "MNLI-m.tsv")):
        assert set(files(f"{source}.tsv", [], SAME_AS_INPUT)([])) == {name}
