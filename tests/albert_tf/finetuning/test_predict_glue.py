"""Predictions for the tasks of GLUE, one by one and all in a submission."""

import zipfile

import pytest
from sklearn.metrics import accuracy_score

from albert_tf.errors import InputError
from albert_tf.finetuning.evaluation import evaluate_trained
from albert_tf.finetuning.predict import predict, submit
from albert_tf.tasks import glue as glue_module
from albert_tf.tasks.glue import GLUE
from tests.albert_tf.finetuning.runs import SENTENCES


def glue_rows(task, count, labelled):
    """The lines of a file of a task, as GLUE has it, and their labels."""
    glue = GLUE[task]
    names = [glue.columns.text, glue.columns.text_pair, glue.columns.label if labelled else None]
    header = ["index", *(name for name in names if name)]
    labels = [glue.labels[n % len(glue.labels)] if glue.labels else f"{n % 6}" for n in range(count)]
    rows = []
    for n in range(count):
        texts = [SENTENCES[n % 20], SENTENCES[(n + 1) % 20]][: 1 if glue.columns.text_pair is None else 2]
        rows.append([str(n), *texts, *([labels[n]] if labelled else [])])
    if glue.headless and labelled:
        return [["x", labels[n], "", row[1]] for n, row in enumerate(rows)], labels
    return [header, *rows], labels


def write_glue(folder, task, rows=4):
    """The folder of a task with development and test sets of so many rows; the labels of the former."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, file in GLUE[task].files.items():
        lines, found[name] = glue_rows(task, rows, labelled=not name.startswith("test"))
        (folder / file).write_text("".join("\t".join(line) + "\n" for line in lines))
    return found


def predicted_labels(file):
    header, *lines = file.read_text().splitlines()
    assert header == "index\tprediction"
    cells = [line.split("\t") for line in lines]
    assert [cell[0] for cell in cells] == [str(n) for n in range(len(cells))]
    return [cell[1] for cell in cells]


@pytest.mark.slow
def test_both_sets_of_mnli_and_ax(saved, tmp_path):
    labels = write_glue(tmp_path / "MNLI", "mnli", 7)
    write_glue(tmp_path / "AX", "ax", 5)
    run = saved("mnli")
    for output in ("both.tsv", "both.tsv.gz"):  # which are two
        with pytest.raises(InputError, match="`output`"):
            predict(run, tmp_path / "MNLI", tmp_path / output)
        assert not (tmp_path / output).exists()
    written = predict(run, tmp_path / "MNLI", tmp_path / "test")
    assert [path.name for path in written] == ["MNLI-m.tsv", "MNLI-mm.tsv"]
    with pytest.raises(InputError, match=r"one\.csv"):
        predict(run, tmp_path / "MNLI/test_matched.tsv", tmp_path / "one.csv")
    assert len(predicted_labels(tmp_path / "test/MNLI-mm.tsv")) == 7
    assert predict(run, tmp_path / "AX", tmp_path / "ax.tsv", task="ax") == [tmp_path / "ax.tsv"]
    assert len(predicted_labels(tmp_path / "ax.tsv")) == 5
    figures = {"step": 0, "examples": 14}
    for part in ("matched", "mismatched"):  # a set by its file, whatever labels it has
        predict(run, tmp_path / f"MNLI/dev_{part}.tsv", tmp_path / f"{part}.tsv")
        predicted = predicted_labels(tmp_path / f"{part}.tsv")
        figures[f"accuracy_{part}"] = pytest.approx(accuracy_score(labels[f"dev_{part}"], predicted))
    assert evaluate_trained(run, folder=tmp_path / "MNLI").figures == figures
    (tmp_path / "MNLI/dev_mismatched.tsv").unlink()
    (tmp_path / "MNLI/test_mismatched.tsv").unlink()
    assert set(evaluate_trained(run, folder=tmp_path / "MNLI").figures) == {
        "step",
        "examples",
        "accuracy_matched",
    }
    assert predict(run, tmp_path / "MNLI", tmp_path / "one.tsv") == [tmp_path / "one.tsv"]
    with pytest.raises(InputError, match="fine-tuned for mnli and not for rte"):
        predict(run, tmp_path / "MNLI", tmp_path / "other", task="rte")


def test_outputs_that_are_there_or_have_no_folder(saved, tmp_path, monkeypatch):
    """Which shows before anything is predicted."""
    run = saved("rte")
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "thesis.txt").write_text("The only copy.")
    monkeypatch.setattr("albert_tf.finetuning.predict.load_finetuned", None)
    for output, error in ((kept, FileExistsError), (kept / "thesis.txt/rte.tsv", NotADirectoryError)):
        with pytest.raises(error, match=str(output)):
            predict(run, tmp_path / "RTE", output)
    assert [path.name for path in kept.iterdir()] == ["thesis.txt"]


@pytest.fixture
def glue(saved, tmp_path, monkeypatch):
    """Runs of all tasks, and their folders with test sets of four rows, or five of AX."""
    rows = {name: 5 if name == "AX.tsv" else 4 for name in glue_module.GLUE_ROWS}
    monkeypatch.setattr(glue_module, "GLUE_ROWS", rows)
    for name, task in GLUE.items():
        write_glue(tmp_path / "glue" / task.name, name, 5 if name == "ax" else 4)
    return {name: saved(name, seq_length=24) for name in GLUE if name != "ax"}


@pytest.mark.slow
def test_a_submission(glue, saved, tmp_path, monkeypatch):
    output = tmp_path / "glue.zip"
    submit(list(glue.values()), tmp_path / "glue", output)
    with zipfile.ZipFile(output) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert set(files) == {
        "CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv",
        "RTE.tsv", "WNLI.tsv", "AX.tsv",
    }  # fmt: skip
    predict(glue["rte"], tmp_path / "glue/RTE", tmp_path / "rte.tsv")
    assert (tmp_path / "rte.tsv").read_text() == files["RTE.tsv"]
    predict(glue["mnli"], tmp_path / "glue/AX", tmp_path / "ax.tsv", task="ax")
    assert (tmp_path / "ax.tsv").read_text() == files["AX.tsv"]

    # What is missing shows before anything is predicted: QQP alone has 390,965 rows.
    monkeypatch.setattr("albert_tf.finetuning.predict.predict_files", None)
    data, output = tmp_path / "glue", tmp_path / "other.zip"
    some = [run for name, run in glue.items() if name not in ("rte", "mnli")]
    with pytest.raises(InputError, match=r"mnli, rte, too$"):
        submit(some, data, output)
    for runs, name in (([glue["rte"]] * 2, "rte"), ([*glue.values(), saved("squad-v1.1")], r"squad-v1\.1")):
        with pytest.raises(InputError, match=f"is of task='{name}'"):
            submit(runs, data, output)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file is not a folder"):
        submit(list(glue.values()), data, tmp_path / "file/glue.zip")
    assert not output.exists()
